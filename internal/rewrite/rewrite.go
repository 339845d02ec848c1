// Package rewrite makes a shell command name the owner it works for.
//
// A harness gives the commands of a subagent the environment of its parent, and
// some give their commands no session at all. The hook that a harness asks before
// each tool knows the owner, and may change the command.
//
// # Guarantee
//
// Every visible call of tasklock gets "--owner NAME", and every visible call of git
// that may run a guard gets TASKLOCK_OWNER=NAME before it. All other bytes stay as they
// are, because text is inserted and nothing is printed anew. A call that names its
// owner already does not change, so that doing it twice is the same as once.
//
// # Limit
//
// A call is visible if it stands in the command: in pipes, lists, loops, functions,
// $(…), and in the text of sh -c '…' and eval '…'. A call in a variable, an alias, a
// here-document or a script is not.
//
// # Failure
//
// A command stays as it is if it cannot be read with certainty.
package rewrite

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Request says what to do with a command of bash.
type Request struct {
	Command string
	Owner   string
	// Session is the name of the owner's session. A call that names the session, or a
	// part of it, in TASKLOCK_OWNER keeps that name.
	Session string
	// Guarded reports whether git asks a guard in one of these folders: those that
	// the command enters, beside the one it starts in (""). Nil: nowhere.
	Guarded func(dirs []string) bool
	// Hooks is the folder of hooks that a guarded call of git runs, for a harness
	// that switches git's own hooks off; empty: git's own.
	Hooks string
	// Named means that calls of tasklock find their owner without help.
	Named bool
}

// A command beyond these limits stays as it is.
const (
	maxCommand = 64 << 10
	maxOpen    = 1000 // brackets
	maxInner   = 4    // scripts in scripts
)

// Do returns the command with its owner, or as it was.
func (r Request) Do() string {
	text := r.Command
	if !strings.Contains(text, "tasklock") && (r.Guarded == nil || !strings.Contains(text, "git")) {
		return text
	}
	edits, ok := r.edits(text)
	if !ok || len(edits) == 0 {
		return text
	}
	out := apply(text, edits)
	if more, ok := r.edits(out); !ok || len(more) > 0 { // an insertion went to a wrong place
		return text
	}
	return out
}

// An edit puts text into a command.
type edit struct {
	at   int
	text string
}

func apply(text string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.at - b.at })
	var b strings.Builder
	done := 0
	for _, e := range edits {
		b.WriteString(text[done:e.at])
		b.WriteString(e.text)
		done = e.at
	}
	b.WriteString(text[done:])
	return b.String()
}

// edits returns what must be put into a command; ok is false if that is uncertain.
func (r Request) edits(text string) (out []edit, ok bool) {
	if len(text) > maxCommand || strings.Count(text, "(")+strings.Count(text, "{")+strings.Count(text, "`") > maxOpen || strings.ContainsAny(text, "\x00\r") {
		return nil, false
	}
	defer func() {
		if recover() != nil { // a command that the parser has never seen
			out, ok = nil, false
		}
	}()
	w := &writer{Request: r, dirs: []string{""}}
	if !w.script(script{text: text}, 0) || w.unsure {
		return nil, false
	}
	if r.Named {
		w.out = nil
	}
	if len(w.git) > 0 && r.Guarded != nil && r.Guarded(w.dirs) {
		w.out = append(w.out, w.git...)
	}
	return w.out, true
}

// writer collects the edits of one command.
type writer struct {
	Request
	out    []edit
	git    []edit // only where there is a guard
	dirs   []string
	unsure bool // the names tasklock and git may mean something else here
}

// script looks for calls in a text; false: the text is not a script.
func (w *writer) script(s script, depth int) bool {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(s.text), "")
	if err != nil {
		return false
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Redirect:
			return n.Hdoc == nil
		case *syntax.CmdSubst: // in backquotes a backslash shifts what follows
			return !n.Backquotes || !strings.Contains(s.of(n), `\`)
		case *syntax.FuncDecl:
			w.unsure = w.unsure || n.Name == nil || slices.Contains(programs, n.Name.Value)
		case *syntax.DeclClause:
			w.exports(n.Args)
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				w.exports(n.Assigns)
				break
			}
			w.call(call{script: s, assigns: n.Assigns, words: n.Args, depth: depth})
		}
		return true
	})
	return true
}

// programs are those whose calls matter here.
var programs = []string{"tasklock", "tasklock-plus", "git", "eval", "sh", "bash", "dash", "zsh", "ksh", "ash"}

// exports gives up if the command names its owner for all later calls: that name
// counts.
func (w *writer) exports(assigns []*syntax.Assign) {
	for _, a := range assigns {
		if a.Name != nil && a.Name.Value == ownerVariable && w.chosen(a.Value) {
			w.unsure = true
		}
	}
}

const ownerVariable = "TASKLOCK_OWNER"

// chosen reports whether a value is the session's name or a part of it.
func (w *writer) chosen(value *syntax.Word) bool {
	if value == nil {
		return false
	}
	text, known := literal(value)
	return known && w.within(text)
}

func (w *writer) within(name string) bool {
	return w.Session != "" && strings.Contains("/"+name+"/", "/"+w.Session+"/")
}

// plain reports whether a name means itself in every kind of quotes.
func plain(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/@%._+,-") == "" && name[0] != '-'
}

func quoted(name string) string {
	if plain(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
