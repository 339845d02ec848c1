package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tasklock/tasklock/internal/problem"
)

// exitHelp is the table for people.
const exitHelp = `Exit codes:
  0  done (check: locked)             6  locked, or the wait timed out
  1  other error (check: free)        7  lease lost, token stale
  2  bad usage or input               8  store unreachable, outcome unknown
  3  no store, bad configuration      9  store damaged
  4  not found, nothing ready        10  unsafe environment
  5  not permitted                   11  the state does not allow it
130  interrupted: the queue was left
run exits as its command does.`

// exitWith ends a command that has said all it had to say with a code.
type exitWith struct{ exit problem.Exit }

func (e *exitWith) Error() string { return fmt.Sprintf("exit %d", e.exit) }

// usageError is a command line that cannot be meant.
type usageError struct {
	text string
	help string // the command whose help explains it, without "tasklock"
}

func (e *usageError) Error() string { return e.text }

func (e *usageError) Problem(problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.Usage, Code: "INVALID_ARGUMENTS", Next: strings.Join(strings.Fields("tasklock "+e.help+" --help"), " ")}
}

func usagef(format string, args ...any) error { return &usageError{text: fmt.Sprintf(format, args...)} }

// deniedError: it could be done, but needs to be said more clearly.
type deniedError struct {
	text string
	next string
}

func (e *deniedError) Error() string { return e.text }

func (e *deniedError) Problem(problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.Denied, Code: "PERMISSION_DENIED", Next: e.next}
}

// hinted is an error with the command that helps here, and nowhere else.
type hinted struct {
	error
	next string
}

func (e *hinted) Unwrap() error { return e.error }

func (e *hinted) Problem(c problem.Caller) problem.Problem {
	p := problem.Of(e.error, c)
	p.Next = e.next
	return p
}

// signalError ends a command that was interrupted while it waited.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return "interrupted" }

func (e *signalError) Problem(problem.Caller) problem.Problem { return problem.Interrupted(e.signal) }

// interrupted returns the signal that ended ctx in place of the error it
// caused further down.
func interrupted(ctx context.Context, err error) error {
	var s *signalError
	if err != nil && errors.As(context.Cause(ctx), &s) {
		return s
	}
	return err
}
