package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Which names a command prints: those go through pipes, loops and $(…) to the
// command that writes. Folders stand for everything in them.

// pipe notes what the next command of a pipe will read.
func (s *shell) pipe(cmd shellCommand) {
	if cmd.op != "|" && cmd.op != "|&" {
		s.fed = nil
		return
	}
	words := cmd.words
	for len(words) > 0 && slices.Contains(keywords, words[0].text) {
		words = words[1:]
	}
	s.fed = s.names(words)
}

// prints is what a script prints, where it is one command that can be told.
func (s *shell) prints(script string) []shellWord {
	if len(script) > 1<<10 {
		return nil
	}
	l := newLexer(script, s.env, s.room, func(string) []shellWord { return nil })
	in := &shell{dir: s.dir, env: s.env, room: s.room}
	var out []shellWord
	for {
		cmd, more := l.next()
		if len(cmd.words) > 0 {
			out = in.names(cmd.words)
		}
		if in.fed = out; !more || out == nil {
			return out
		}
		if cmd.op != "|" && len(strings.TrimSpace(l.src[l.pos:])) > 0 {
			return nil
		}
	}
}

// names are the files that a command prints: nil where nobody knows.
func (s *shell) names(words []shellWord) []shellWord {
	if len(words) == 0 {
		return nil
	}
	args := words[1:]
	switch name := base(words[0].text); name {
	case "pwd":
		return s.one(s.dir)
	case "git":
		return s.gitNames(args)
	case "echo", "printf", "ls":
		return known(operands(args))
	case "find":
		return finds(args)
	case "grep", "egrep", "fgrep", "rg", "ag", "ack":
		if !hasCluster(args, 'l') && !has(args, "--files-with-matches", "--files") {
			return s.fed // a filter
		}
		return matches(args)
	case "sort", "uniq", "head", "tail", "tr", "sed", "awk":
		return s.fed
	}
	return nil
}

func (s *shell) one(text string) []shellWord {
	if text == "" {
		return nil
	}
	return []shellWord{exactly(text)}
}

func known(words []shellWord) (out []shellWord) {
	for _, w := range words {
		if w.known && w.text != "" {
			out = append(out, w)
		}
	}
	return out
}

func (s *shell) gitNames(args []shellWord) []shellWord {
	if len(args) == 0 {
		return nil
	}
	switch rest := args[1:]; args[0].text {
	case "rev-parse":
		if len(rest) == 1 && rest[0].text == "--show-toplevel" {
			return s.one(rootOf(s.dir))
		}
	case "ls-files":
		return below(known(operands(rest)), "")
	case "grep":
		if hasCluster(rest, 'l') || has(rest, "--files-with-matches", "--name-only") {
			return matches(rest)
		}
	}
	return nil
}

// rootOf is the nearest folder with a repository, at or above dir.
func rootOf(dir string) string {
	for filepath.IsAbs(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// matches are the files that grep -l may name: those in its folders.
func matches(args []shellWord) []shellWord {
	ops := operands(args, "-e", "-f", "-g", "-t", "-A", "-B", "-C", "-m", "--glob", "--type", "--include", "--exclude", "--exclude-dir")
	if !has(args, "-e", "--regexp", "-f", "--files") && len(ops) > 0 {
		ops = ops[1:] // what is looked for
	}
	name := ""
	for i, a := range args {
		if glob, ok := strings.CutPrefix(a.text, "--include="); ok {
			name = glob
		} else if slices.Contains([]string{"--include", "-g", "--glob"}, a.text) && i+1 < len(args) && !strings.HasPrefix(args[i+1].text, "!") {
			name = args[i+1].text
		}
	}
	return below(known(ops), name)
}

// finds are the files that find finds, by where it looks and their names.
func finds(args []shellWord) []shellWord {
	n := slices.IndexFunc(args, func(a shellWord) bool { return strings.HasPrefix(a.text, "-") || a.text == "!" || a.text == "(" })
	if n < 0 {
		n = len(args)
	}
	roots, tests := known(args[:n]), args[n:]
	if len(roots) < n {
		return nil
	}
	var out []shellWord
	for i := 1; i < len(tests); i++ {
		test := tests[i-1].text
		not := i > 1 && (tests[i-2].text == "!" || tests[i-2].text == "-not")
		if (test == "-name" || test == "-iname") && !not && tests[i].known {
			out = append(out, below(roots, tests[i].text)...)
		}
	}
	if out == nil {
		return below(roots, "")
	}
	return out
}

// below is what lies in folders, at any depth, under a name that may have
// wildcards; without one, everything and the folders themselves.
func below(roots []shellWord, name string) (out []shellWord) {
	if len(roots) == 0 {
		roots = []shellWord{exactly(".")}
	}
	rest := "**"
	if name != "" {
		rest += "/" + strings.TrimPrefix(strings.NewReplacer("[", "?", "]", "?", "{", "?", "}", "?").Replace(filepath.Base(name)), "/")
	}
	for _, r := range roots {
		root := r.pattern
		if root == "" {
			var b builder
			b.literal(r.text)
			root = b.pattern.String()
		}
		if name == "" {
			out = append(out, r)
		}
		out = append(out, shellWord{text: r.text, pattern: strings.TrimSuffix(root, "/") + "/" + rest, there: true, known: true})
	}
	return out
}

// xargs runs a command on the names that it reads.
func (s *shell) xargs(args []shellWord, heredoc string, depth int) {
	mark := ""
	for len(args) > 0 && strings.HasPrefix(args[0].text, "-") {
		flag := args[0].text
		args = args[1:]
		switch {
		case strings.HasPrefix(flag, "-I") && len(flag) > 2:
			mark = flag[2:]
		case slices.Contains([]string{"-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E"}, flag) && len(args) > 0:
			if flag == "-I" {
				mark = args[0].text
			}
			args = args[1:]
		}
	}
	if mark == "" {
		args, mark = append(slices.Clone(args), exactly("{}")), "{}"
	}
	s.on(s.fed, args, mark, depth)
}

// find removes what it finds, or runs a command on it.
func (s *shell) find(args []shellWord, depth int) {
	names := finds(args)
	for i, a := range args {
		switch a.text {
		case "-delete":
			s.gone(names)
		case "-exec", "-execdir", "-ok":
			cmd := args[i+1:]
			if n := slices.IndexFunc(cmd, func(w shellWord) bool { return w.text == ";" || w.text == "+" }); n >= 0 {
				cmd = cmd[:n]
			}
			s.on(names, cmd, "{}", depth)
		}
	}
}

// inScript is the variable that stands for a name in a script.
const inScript = "_name"

// on notes what a command writes that is run on names, each in the place of a
// mark.
func (s *shell) on(names, cmd []shellWord, mark string, depth int) {
	if depth > maxScripts {
		return
	}
	for _, name := range names {
		if len(s.out) > maxTargets {
			return
		}
		words := slices.Clone(cmd)
		for i, w := range words {
			if strings.Contains(w.text, mark) && strings.ContainsAny(w.text, " \t\n") { // a script
				words[i] = exactly(strings.ReplaceAll(w.text, mark, "${"+inScript+"}"))
			} else if before, after, ok := strings.Cut(w.text, mark); ok && w.known && fill(s.room, name.text) {
				var b builder
				b.literal(before)
				b.value(name)
				b.literal(after)
				words[i] = b.word()
			}
		}
		in := s.inner()
		in.fed, in.env[inScript] = nil, name
		in.command(shellCommand{words: words}, depth+1)
		s.out = append(s.out, in.out...)
	}
}

// loops are the loops around the command that is being read.
type loops struct {
	open    []loop
	repeats int
}

type loop struct {
	variable string
	values   []shellWord // still to come
	body     int         // where it begins
	reads    bool        // its values come from what stands behind it, if there is something
}

// maxRepeats bounds how often bodies of loops are read again.
const maxRepeats = 200

// follow lets a loop be read once for each of its values.
func (ls *loops) follow(s *shell, l *lexer, cmd shellCommand) {
	words := cmd.words
	for len(words) > 0 && slices.Contains([]string{"if", "then", "else", "do", "!", "{", "time"}, words[0].text) {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	switch words[0].text {
	case "for", "select":
		o := loop{body: l.pos}
		if len(words) > 3 && words[2].text == "in" {
			o.variable, o.values = words[1].text, words[3:]
		}
		ls.begin(s, o)
	case "while", "until":
		o := loop{body: l.pos}
		if i := slices.IndexFunc(words, func(w shellWord) bool { return w.text == "read" }); i > 0 {
			if ops := operands(words[i+1:], "-d", "-u", "-t"); len(ops) > 0 {
				o.variable, o.values, o.reads = ops[0].text, s.fed, true
			}
		}
		ls.begin(s, o)
	case "done":
		n := len(ls.open)
		if n == 0 {
			return
		}
		o := &ls.open[n-1]
		if o.reads && len(cmd.input) > 0 { // done < <(find …)
			o.values, o.reads = cmd.input, false
		}
		if len(o.values) == 0 || ls.repeats >= maxRepeats {
			ls.open = ls.open[:n-1]
			return
		}
		ls.repeats++
		o.next(s)
		l.pos = o.body
	}
}

func (ls *loops) begin(s *shell, o loop) {
	if len(o.values) > 0 {
		o.next(s)
	}
	ls.open = append(ls.open, o)
}

// next gives the variable its next value.
func (o *loop) next(s *shell) {
	w := o.values[0]
	o.values = o.values[1:]
	delete(s.env, o.variable)
	if w.known {
		s.env[o.variable] = w
	}
}
