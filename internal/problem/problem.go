// Package problem says what an error means: the exit code of a command, the
// code and the facts for programs, the status of an HTTP answer, the text for
// people and for agents, and the command that helps.
//
// There is one table for all errors (table.go). The command, the MCP server and
// the HTTP server read it, so that one error never means two things.
package problem

import (
	"errors"
	"strings"
	"time"
)

// Exit is the exit code of a command.
type Exit int

// The exit codes. run exits with its command's code, and with these for its own
// errors.
const (
	OK      Exit = 0  // done; check: locked
	Error   Exit = 1  // other errors; check: free, and nothing else
	Usage   Exit = 2  // bad usage, bad input
	Setup   Exit = 3  // not initialised, bad configuration, newer format, moved
	None    Exit = 4  // not found, nothing ready
	Denied  Exit = 5  // not permitted
	Locked  Exit = 6  // locked, or the wait timed out
	Lost    Exit = 7  // lease lost, token stale
	Unknown Exit = 8  // store unreachable, outcome unknown
	Damaged Exit = 9  // store damaged
	Unsafe  Exit = 10 // unsafe environment
	State   Exit = 11 // the state does not allow it
	Signal  Exit = 128
)

// status is the status of an HTTP answer, unless the row of the error has its own.
// They are numbers because a plain command does not load net/http.
var status = map[Exit]int{
	Error: 500, Usage: 400, Setup: 503,
	None: 404, Denied: 403, Locked: 423, Lost: 412,
	Unknown: 503, Damaged: 500, Unsafe: 500,
	State: 409,
}

// A Problem is the meaning of an error for its caller.
type Problem struct {
	Exit    Exit
	Code    string         // for programs
	Status  int            // of an HTTP answer
	Message string         // for people, in one line
	Ours    string         // for agents: the same without text of others; "": unknown
	Details map[string]any // the facts, for programs
	Next    string         // the command that helps, or nothing
}

// A Caller met the error. The command that helps depends on it.
type Caller struct {
	Command string   // "tasks claim"
	Owner   string   // who asked
	Store   string   // the URL of the store, without a password
	Retry   []string // the command that goes on waiting, without "tasklock"

	Line   func(words ...string) string      // a command line to type; nil: the words after "tasklock"
	Type   func(words []string) string       // a command line of another program; nil: the words
	Longer func(hold time.Duration) []string // Retry with a longer --max-hold; nil: it had none
	Use    func(url string) string           // the command after which another store is used; nil: doctor
}

// A Describer is an error that describes itself.
type Describer interface {
	error
	Problem(Caller) Problem
}

// Of returns what err means to c.
func Of(err error, c Caller) Problem {
	c = c.complete()
	p := find(err, c)
	if p.Message == "" {
		p.Message = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if p.Next == "" {
		p.Next = c.usual(p.Exit)
	}
	if p.Status == 0 {
		p.Status = status[p.Exit]
	}
	return p
}

func find(err error, c Caller) Problem {
	var own Describer
	if errors.As(err, &own) {
		return own.Problem(c)
	}
	for _, fits := range table {
		if p, ok := fits(err, c); ok {
			return p
		}
	}
	return Problem{Exit: Error, Code: "ERROR"}
}

func (c Caller) complete() Caller {
	if c.Line == nil {
		c.Line = func(words ...string) string { return "tasklock " + strings.Join(words, " ") }
	}
	if c.Type == nil {
		c.Type = func(words []string) string { return strings.Join(words, " ") }
	}
	if c.Use == nil {
		c.Use = func(string) string { return c.Line("doctor") }
	}
	return c
}

// usual is the command that helps if the error names none.
func (c Caller) usual(exit Exit) string {
	switch exit {
	case Usage:
		return "tasklock " + c.Command + " --help"
	case Unknown, Damaged, Unsafe:
		return c.Line("doctor")
	case Setup:
		return c.Line("config", "show")
	}
	return ""
}

// group is the first word of the command: "tasks" of "tasks claim".
func (c Caller) group() string {
	group, _, _ := strings.Cut(c.Command, " ")
	return group
}

// typed is the command line of some words, the first of which names the program.
func (c Caller) typed(words []string) string {
	if len(words) > 1 && words[0] == "tasklock" {
		return c.Line(words[1:]...)
	}
	return c.Type(words)
}

// again is the command that goes on waiting, or nothing.
func (c Caller) again() string {
	if c.Retry == nil {
		return ""
	}
	return c.Line(c.Retry...)
}
