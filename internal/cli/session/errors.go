package session

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/internal/problem"
)

// ExitHelp is the table for people.
const ExitHelp = `Exit codes:
  0  done (check: locked)             6  locked, or the wait timed out
  1  other error (check: free)        7  lease lost, token stale
  2  bad usage or input               8  store unreachable, outcome unknown
  3  no store, bad configuration      9  store damaged
  4  not found, nothing ready        10  unsafe environment
  5  not permitted                   11  the state does not allow it
130  interrupted: left the queue
run exits with its command's code.`

// ExitError ends a command that has already printed everything.
type ExitError problem.Exit

func (e ExitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// UsageError is a malformed command line.
type UsageError struct {
	Text string
	Help string // the command whose help explains it, without "tasklock"
}

func (e *UsageError) Error() string { return e.Text }

func (e *UsageError) Problem(problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.Usage, Code: "INVALID_ARGUMENTS", Next: strings.Join(strings.Fields("tasklock "+e.Help+" --help"), " ")}
}

// Usagef is a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{Text: fmt.Sprintf(format, args...)} }

// DeniedError: the command could do it, but needs explicit consent.
type DeniedError struct {
	Text string
	Next string
}

func (e *DeniedError) Error() string { return e.Text }

func (e *DeniedError) Problem(problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.Denied, Code: "PERMISSION_DENIED", Next: e.Next}
}

// hinted is an error with the command that helps in this place.
type hinted struct {
	error
	next string
}

// WithNext adds to an error the command that helps.
func WithNext(err error, next string) error { return &hinted{err, next} }

func (e *hinted) Unwrap() error { return e.error }

func (e *hinted) Problem(c problem.Caller) problem.Problem {
	p := problem.Of(e.error, c)
	p.Next = e.next
	return p
}

// Attempt is an error with what only the failed command knows.
type Attempt struct {
	Err     error
	retry   []string // the command line that goes on waiting
	Message string   // in place of the error's own
	Event   string   // the name under which an attached holder prints it
	Waited  Patience // the wait that it ended; zero: there was none
}

func (e *Attempt) Error() string { return e.Err.Error() }

func (e *Attempt) Unwrap() error { return e.Err }

// Tried adds to an error the command line that goes on waiting.
func Tried(err error, retry []string) error {
	if err == nil {
		return nil
	}
	return &Attempt{Err: err, retry: retry}
}

// attemptOf is everything known about the attempt that failed with err.
func attemptOf(err error) (all Attempt) {
	for one := (*Attempt)(nil); errors.As(err, &one); err = one.Err {
		all.Message, all.Event = cmp.Or(all.Message, one.Message), cmp.Or(all.Event, one.Event)
		if all.retry == nil {
			all.retry = one.retry
		}
		if all.Waited == (Patience{}) {
			all.Waited = one.Waited
		}
	}
	return all
}
