package shellwrites

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/tasklock/tasklock/internal/repo"
)

type (
	variables map[string]expand.Variable
	functions map[string]*syntax.Stmt
)

// shell follows a script: its folders, its variables and the texts that it prints.
type shell struct {
	r      *reader
	dir    string
	dirs   []string // of pushd
	vars   variables
	funcs  functions
	params []string        // $1, $2, …
	name   string          // $0
	in     string          // what it reads on standard input
	soft   map[string]bool // variables that have a value for when they are not set, see prepare
}

// sub is a copy of this shell, for commands whose changes end with them.
func (s *shell) sub() *shell {
	in := *s
	in.vars, in.funcs = maps.Clone(s.vars), maps.Clone(s.funcs)
	return &in
}

// in is this shell in another folder; an empty name is its own.
func (s *shell) inFolder(dir string) *shell {
	other := *s
	if dir != "" {
		other.dir = repo.Absolute(s.dir, dir)
	}
	return &other
}

func text(s string) expand.Variable {
	return expand.Variable{Set: true, Kind: expand.String, Str: s}
}

// Get is the value of a variable, and unknown if only the running shell has it.
func (s *shell) Get(name string) expand.Variable {
	v := s.lookup(name)
	if s.r.room -= size(v); s.r.room < 0 {
		return text(unknown)
	}
	return v
}

// size is how much text a variable holds.
func size(v expand.Variable) int {
	n := len(v.Str)
	for _, e := range v.List {
		n += len(e)
	}
	return n
}

func (s *shell) lookup(name string) expand.Variable {
	if v, ok := s.vars[name]; ok {
		return v
	}
	switch name {
	case "PWD":
		return text(s.dir)
	case "@", "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: s.params}
	case "#":
		return text(strconv.Itoa(len(s.params)))
	case "0":
		return text(s.name)
	case "IFS", "CDPATH":
		return expand.Variable{}
	case "HOME":
		if home, err := os.UserHomeDir(); err == nil {
			return text(home)
		}
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n > 0 && n <= len(s.params) {
			return text(s.params[n-1])
		}
		return expand.Variable{}
	}
	if value := s.r.view.Env(name); value != "" {
		return text(value)
	}
	if s.soft[name] || strings.Contains(name, " ") {
		return expand.Variable{}
	}
	return text(unknown)
}

// Each and Set make the shell an [expand.WriteEnviron].
func (s *shell) Each(func(string, expand.Variable) bool) {}

func (s *shell) Set(name string, v expand.Variable) error {
	if size(v) > maxValue {
		v = text(unknown)
	}
	s.vars[name] = v
	return nil
}

func (s *shell) config() *expand.Config {
	return &expand.Config{
		Env: s,
		CmdSubst: func(w io.Writer, c *syntax.CmdSubst) error {
			_, err := io.WriteString(w, s.output(c.Stmts))
			return err
		},
		ProcSubst: func(p *syntax.ProcSubst) (string, error) {
			out := s.output(p.Stmts)
			if p.Op == syntax.CmdIn && known(out) {
				s.r.procs = append(s.r.procs, out)
				return procMark + strconv.Itoa(len(s.r.procs)-1), nil
			}
			return unknown, nil
		},
		ReadDir2: func(dir string) ([]fs.DirEntry, error) {
			if s.r.steps += 10; s.r.steps > maxSteps || time.Now().After(s.r.until) || !known(dir) {
				return nil, fs.ErrPermission
			}
			return os.ReadDir(dir)
		},
	}
}

// procMark begins a word that stands for the output of <(…): its number in procs.
const procMark = "\uF8F3"

// output runs statements in a shell of their own and returns what they print.
func (s *shell) output(stmts []*syntax.Stmt) string {
	in := s.sub()
	in.soft = nil
	out := s.r.nested(func() string { return in.stmts(stmts) })
	if len(out) > maxFile {
		return unknown
	}
	return out
}

// prepare must come before a word is expanded. It notes the variables that have a value
// for when they are not set (${X:-value}), so that they do not count as unknown, and
// takes room for replacements, which can multiply a text.
func (s *shell) prepare(node syntax.Node) {
	s.soft = nil
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			if n.Repl != nil {
				s.r.room -= maxRoom / 100
			}
			if n.Exp != nil && n.Param != nil {
				if s.soft == nil {
					s.soft = map[string]bool{}
				}
				s.soft[n.Param.Value] = true
			}
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		}
		return true
	})
}

// maxBraces limits the groups {a,b} in one word, because each multiplies it.
const maxBraces = 12

func braces(w *syntax.Word) (n int) {
	for _, p := range w.Parts {
		if lit, ok := p.(*syntax.Lit); ok {
			n += strings.Count(lit.Value, "{")
		}
	}
	return n
}

// fields expands words into arguments.
func (s *shell) fields(words ...*syntax.Word) (out []string) {
	for _, w := range words {
		if text, ok := plainWord(w); ok && len(out) < maxFields {
			out = append(out, text)
			continue
		}
		if braces(w) > maxBraces {
			s.r.unsure("a word has too many braces")
			out = append(out, unknown)
			continue
		}
		s.prepare(w)
		for f, err := range expand.FieldsSeq(s.config(), w) {
			if err != nil {
				f = unknown
			}
			if len(out) >= maxFields {
				s.r.unsure("the command has too many words")
				return out
			}
			out = append(out, f)
		}
	}
	return out
}

// plainWord is the text of a word that stands for itself. Most words of long commands
// do, and to expand them all costs more than to read them.
func plainWord(w *syntax.Word) (string, bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	switch p := w.Parts[0].(type) {
	case *syntax.SglQuoted:
		return p.Value, !p.Dollar
	case *syntax.Lit:
		return p.Value, !strings.ContainsFunc(p.Value, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:,+@%", r))
		})
	}
	return "", false
}

// literal expands a word into one text.
func (s *shell) literal(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	s.prepare(w)
	out, err := expand.Literal(s.config(), unescaped(w))
	if err != nil {
		return unknown
	}
	return out
}

var (
	escaped = compiled(`(?s)\\(.)`)
	tabbed  = compiled(`(?m)^\t+`)
)

// compiled returns an expression that is compiled when it is first used: every
// command of tasklock starts with this package, and few read a shell command.
func compiled(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// unescaped is a word without the backslashes outside of quotes, which
// [expand.Literal] would keep.
func unescaped(w *syntax.Word) *syntax.Word {
	out := &syntax.Word{}
	for _, p := range w.Parts {
		if lit, ok := p.(*syntax.Lit); ok && strings.Contains(lit.Value, `\`) {
			p = &syntax.SglQuoted{Value: escaped().ReplaceAllString(lit.Value, "$1")}
		}
		out.Parts = append(out.Parts, p)
	}
	return out
}

// document is the text of a here-document. The shell expands it unless a part of the
// word that ends it is quoted.
func (s *shell) document(r *syntax.Redirect) string {
	if r.Hdoc == nil {
		return ""
	}
	out := r.Hdoc.Lit()
	if end := r.Word.Lit(); end != "" && !strings.Contains(end, `\`) {
		s.prepare(r.Hdoc)
		var err error
		if out, err = expand.Document(s.config(), r.Hdoc); err != nil {
			return unknown
		}
	}
	if r.Op == syntax.DashHdoc {
		out = tabbed().ReplaceAllString(out, "")
	}
	return out
}

// assign gives variables their values.
func (s *shell) assign(list []*syntax.Assign) {
	for _, a := range list {
		if a.Name == nil || a.Naked || a.Index != nil {
			if a.Name != nil && a.Index != nil {
				s.vars[a.Name.Value] = text(unknown)
			}
			continue
		}
		name := a.Name.Value
		if a.Array != nil {
			var words []*syntax.Word
			for _, e := range a.Array.Elems {
				if e.Value != nil {
					words = append(words, e.Value)
				}
			}
			list := s.fields(words...)
			if a.Append {
				list = append(append([]string(nil), s.vars[name].List...), list...)
			}
			_ = s.Set(name, expand.Variable{Set: true, Kind: expand.Indexed, List: list})
			continue
		}
		value := s.literal(a.Value)
		if a.Append {
			value = s.Get(name).String() + value
		}
		_ = s.Set(name, text(value))
	}
}
