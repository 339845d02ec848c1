package session

import (
	"fmt"
	"os"
	"testing"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store/driver"
)

// What the errors of the command itself mean; package problem has the others.
func TestOwnProblems(t *testing.T) {
	for _, c := range []struct {
		err  error
		exit problem.Exit
		code string
	}{
		{&UsageError{Text: "x"}, 2, "INVALID_ARGUMENTS"},
		{&config.Error{}, 3, "INVALID_CONFIG"},
		{&DeniedError{}, 5, "PERMISSION_DENIED"},
		{&SignalError{os.Interrupt}, 130, "INTERRUPTED"},
		{&config.UntrustedError{}, 3, "UNTRUSTED_STORE"},
		{ErrIncomplete, 3, "INCOMPLETE_INSTALLATION"},
		{WithNext(driver.ErrOlder, "x"), 3, "OLDER_FORMAT"},
		{Tried(driver.ErrOlder, nil), 3, "OLDER_FORMAT"},
	} {
		if got := problem.Of(fmt.Errorf("wrapped: %w", c.err), problem.Caller{}); got.Exit != c.exit || got.Code != c.code {
			t.Errorf("%T %v: %v, want %d %s", c.err, c.err, got, c.exit, c.code)
		}
	}
}

// What several callers add to an error is all known in the end.
func TestAttemptOf(t *testing.T) {
	wait := Starts(1)
	err := fmt.Errorf("wrapped: %w", Tried(Waited(&Attempt{Err: driver.ErrOlder, Message: "m", Event: "lost"}, wait), []string{"next"}))
	if a := attemptOf(err); a.Message != "m" || a.Event != "lost" || a.Waited != wait || len(a.retry) != 1 {
		t.Errorf("%+v", a)
	}
	if Tried(nil, []string{"next"}) != nil || Waited(nil, wait) != nil {
		t.Error("an error of nothing")
	}
}
