package setupcmd

import (
	"fmt"
	"testing"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
)

func TestOwnProblems(t *testing.T) {
	for _, c := range []struct {
		err  error
		exit problem.Exit
		code string
	}{
		{&noProjectError{}, 3, "NO_PLACE"},
		{&deniedBusy{busy: &lease.BusyError{}}, 6, "TASK_LOCKED"},
	} {
		if got := problem.Of(fmt.Errorf("wrapped: %w", c.err), problem.Caller{}); got.Exit != c.exit || got.Code != c.code {
			t.Errorf("%T %v: %v, want %d %s", c.err, c.err, got, c.exit, c.code)
		}
	}
}

func TestWorstFinding(t *testing.T) {
	list := []session.Finding{{Level: session.LevelOK}, {Level: session.LevelFail, Exit: problem.Denied}, {Level: session.LevelWarn}, {Level: session.LevelFail, Exit: problem.Unsafe}, {Level: session.LevelFail, Exit: problem.Error}}
	if w := worstOf(list); w == nil || w.Exit != problem.Unsafe {
		t.Errorf("%+v", w)
	}
	if w := worstOf(list[:1]); w != nil {
		t.Errorf("%+v", w)
	}
}
