package shellwrites

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// script follows the text of a script in this shell and returns what it prints.
func (s *shell) script(src string) string {
	if !s.r.shallow(src) {
		return unknown
	}
	return s.r.nested(func() string { return s.stmts(s.r.parse(src)) })
}

// nested follows a script, function or substitution inside another one, unless they
// are too deep.
func (r *reader) nested(follow func() string) string {
	if r.depth >= maxDepth {
		return unknown
	}
	r.depth++
	defer func() { r.depth-- }()
	return follow()
}

// maxNesting limits brackets inside brackets, because the parser needs stack for each.
const maxNesting = 300

// shallow reports whether the parser can bear how deep a text is nested. It counts
// brackets and keywords, also those in quotes.
func (r *reader) shallow(src string) bool {
	depth, words := 0, 0
	for _, c := range src {
		switch c {
		case '(', '{':
			if depth++; depth > maxNesting {
				r.unsure("the command has too many brackets in one another")
				return false
			}
		case ')', '}':
			depth = max(0, depth-1)
		}
	}
	for _, w := range strings.Fields(src) {
		switch w {
		case "if", "while", "until", "for", "case", "!", "time", "coproc", "function", "select":
			words++
		case "fi", "done", "esac", "fi;", "done;", "esac;":
			words = max(0, words-1)
		}
		if words > maxNesting {
			r.unsure("the command has too many loops in one another")
			return false
		}
	}
	return true
}

var unclosed = compiled("unclosed here-document [`'\"]?([^`'\"]+)")

// parse returns the statements up to the first that cannot be read: a shell runs
// those too. A here-document may lack its end.
func (r *reader) parse(src string) []*syntax.Stmt {
	stmts, err := parse(src)
	if err != nil {
		if m := unclosed().FindStringSubmatch(err.Error()); m != nil {
			if all, wrong := parse(src + "\n" + m[1] + "\n"); wrong == nil {
				return all
			}
		}
		if all, wrong := parse(src, syntax.Variant(syntax.LangZsh)); wrong == nil {
			return all
		}
		r.unsure("the command cannot be read: " + err.Error())
	}
	return stmts
}

func parse(src string, options ...syntax.ParserOption) (out []*syntax.Stmt, err error) {
	for stmt, wrong := range syntax.NewParser(options...).StmtsSeq(strings.NewReader(src)) {
		switch { // it goes on after an error, because the parser panics if the loop ends early
		case err != nil:
		case wrong != nil:
			err = wrong
		default:
			out = append(out, stmt)
		}
	}
	return out, err
}

func (s *shell) stmts(list []*syntax.Stmt) string {
	if len(list) == 1 {
		return s.stmt(list[0])
	}
	var out strings.Builder
	for _, st := range list {
		if s.r.over() {
			break
		}
		if text := s.stmt(st); out.Len() < maxFile {
			out.WriteString(text)
		}
	}
	return out.String()
}

// stmt follows a command with its redirections, and returns what it prints.
func (s *shell) stmt(st *syntax.Stmt) string {
	if s.r.steps++; st == nil || s.r.over() {
		return ""
	}
	was := s.in
	for _, r := range st.Redirs {
		s.redirect(r)
	}
	out := ""
	switch {
	case st.Cmd != nil:
		out = s.command(st.Cmd)
	case len(st.Redirs) == 1 && st.Redirs[0].Op == syntax.RdrIn: // $(<file)
		out = s.in
	}
	s.in = was
	return out
}

func (s *shell) redirect(r *syntax.Redirect) {
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		s.in = s.document(r)
	case syntax.WordHdoc:
		s.in = s.literal(r.Word) + "\n"
	case syntax.RdrIn:
		s.in = s.content(s.literal(r.Word))
	case syntax.DplIn:
	case syntax.DplOut:
		if to := s.literal(r.Word); strings.Trim(to, "0123456789-") != "" {
			s.write(to)
		}
	default:
		s.write(s.literal(r.Word))
	}
}

// content is the text of the file that a word names. <(…) counts as a file.
func (s *shell) content(word string) string {
	if n, ok := strings.CutPrefix(word, procMark); ok {
		if i := number([]string{n}, -1); i >= 0 && i < len(s.r.procs) {
			return s.r.procs[i]
		}
		return unknown
	}
	if word == "-" || word == "/dev/stdin" {
		return s.in
	}
	return s.file(word)
}

func (s *shell) command(cmd syntax.Command) string {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		return s.simple(c)
	case *syntax.BinaryCmd:
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			right := s.sub()
			right.in = s.sub().stmt(c.X)
			return right.stmt(c.Y)
		}
		first := s.stmt(c.X)
		return first + s.stmt(c.Y)
	case *syntax.Subshell:
		return s.sub().stmts(c.Stmts)
	case *syntax.Block:
		return s.stmts(c.Stmts)
	case *syntax.IfClause:
		out := ""
		for ; c != nil; c = c.Else {
			out += s.stmts(c.Cond) + s.stmts(c.Then)
		}
		return out
	case *syntax.WhileClause:
		return s.while(c)
	case *syntax.ForClause:
		return s.loop(c)
	case *syntax.CaseClause:
		return s.choose(c)
	case *syntax.FuncDecl:
		if c.Name != nil {
			s.funcs[c.Name.Value] = c.Body
		}
	case *syntax.DeclClause:
		s.assign(c.Args)
	case *syntax.TimeClause:
		return s.stmt(c.Stmt)
	case *syntax.CoprocClause:
		return s.sub().stmt(c.Stmt)
	case *syntax.ArithmCmd:
		_, _ = expand.Arithm(s.config(), c.X)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			_, _ = expand.Arithm(s.config(), x)
		}
	case *syntax.TestClause:
		s.tested(c)
	}
	return ""
}

// simple follows a command without pipes, lists or loops: its variables and its call.
func (s *shell) simple(c *syntax.CallExpr) string {
	if len(c.Args) == 0 {
		s.assign(c.Assigns)
		return ""
	}
	args := s.fields(c.Args...)
	if len(args) == 0 || len(c.Assigns) == 0 {
		return s.call(args)
	}
	in := s.sub()
	in.assign(c.Assigns)
	return in.call(args)
}

// tested follows the commands that [[ … ]] runs.
func (s *shell) tested(c *syntax.TestClause) {
	syntax.Walk(c, func(n syntax.Node) bool {
		sub, ok := n.(*syntax.CmdSubst)
		if ok {
			s.output(sub.Stmts)
		}
		return !ok
	})
}

// carriers run the command behind their own flags. Here are those of their flags that
// take a value.
var carriers = map[string][]string{
	"sudo": {"-u", "-g", "-h", "-p", "-C", "-U", "-D", "--user", "--group"}, "doas": {"-u", "-C"},
	"timeout": {"-s", "-k", "--signal", "--kill-after"}, "exec": {"-a"}, "time": {"-f", "-o"},
	"ionice": {"-c", "-n"}, "nice": {"-n"}, "chrt": nil, "stdbuf": {"-i", "-o", "-e"}, "nohup": nil, "setsid": nil, "caffeinate": nil,
	"command": nil, "builtin": nil, "busybox": nil, "npx": nil, "bunx": nil, "uvx": nil, "unbuffer": nil, "winpty": nil, "strace": {"-o", "-e"},
}

// runners run the program that stands behind one of these verbs.
var runners = map[string][]string{
	"npm": {"exec", "x"}, "pnpm": {"exec", "dlx"}, "yarn": {"exec", "dlx", "run"}, "uv": {"run"}, "poetry": {"run"}, "pipenv": {"run"}, "pdm": {"run"},
	"hatch": {"run"}, "rye": {"run"}, "bundle": {"exec"},
}

// runs is how many words stand before the program that a runner runs; 0: the command
// is not a runner. yarn and pnpm need no verb before a formatter.
func runs(args []string) int {
	name := base(args[0])
	if len(args) < 2 || runners[name] == nil {
		return 0
	}
	_, formats := formatters[args[1]]
	switch {
	case slices.Contains(runners[name], args[1]):
		return 2
	case formats && (name == "yarn" || name == "pnpm"):
		return 1
	}
	return 0
}

// call follows one command by its arguments and returns what it prints.
func (s *shell) call(args []string) string {
	for len(args) > 0 {
		if body, ok := s.funcs[args[0]]; ok {
			return s.function(body, args)
		}
		valued, carries := carriers[base(args[0])]
		switch {
		case base(args[0]) == "command" && len(args) > 1 && (args[1] == "-v" || args[1] == "-V"):
			return unknown
		case carries:
			args = carried(args[1:], valued)
		case runs(args) > 0:
			if i := slices.Index(args, "--"); i > 0 && base(args[0]) == "npm" { // what follows is for the program
				args = slices.Concat(args[:i], args[i+1:])
			}
			args = carried(args[runs(args):], []string{"--with", "--python", "-p", "--package", "--extra", "--group"})
		case base(args[0]) == "env":
			in, rest := s.env(args[1:])
			return in.call(rest)
		default:
			return s.program(args)
		}
	}
	return ""
}

// function runs the body of a function with its arguments.
func (s *shell) function(body *syntax.Stmt, args []string) string {
	was := s.params
	defer func() { s.params = was }()
	s.params = args[1:]
	return s.r.nested(func() string { return s.stmt(body) })
}

// env follows the flags and variables of the program env, and returns what it runs.
func (s *shell) env(args []string) (in *shell, command []string) {
	flags, args := getopt(args, true, "-C", "-u", "--chdir", "--unset")
	in = s.sub().inFolder(last(flags.values("-C", "--chdir"), ""))
	for len(args) > 0 {
		name, value, assigns := strings.Cut(args[0], "=")
		if assigns {
			in.vars[name] = text(value)
		} else if args[0] != "-" { // the same as -i
			break
		}
		args = args[1:]
	}
	return in, args
}

func base(program string) string { return strings.TrimSuffix(filepath.Base(program), ".exe") }

// carried skips the flags and numbers of a carrier.
func carried(args, valued []string) []string {
	_, args = getopt(args, true, valued...)
	for len(args) > 0 && isAmount(args[0]) { // its own, or that of a flag that is not in the table
		_, args = getopt(args[1:], true, valued...)
	}
	return args
}

// isAmount reports whether a word is a number or a time, like 5 or 0.5m. sh is not a
// time, although both its letters are units.
func isAmount(s string) bool {
	return strings.IndexAny(s, "0123456789.") == 0 && strings.Trim(s, "0123456789.smhd") == "" && s != "." && s != ".."
}
