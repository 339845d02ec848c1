package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// mainWith runs a command over a store that open opens.
func mainWith(t *testing.T, open session.Opener, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = mainTo(t, open, &out, &err, args...)
	return code, out.String(), err.String()
}

func mainTo(t *testing.T, open session.Opener, stdout, stderr io.Writer, args ...string) int {
	t.Helper()
	dir := t.TempDir()
	repository(t, dir)
	return Main(args, session.Process{
		Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Dir: dir, Now: time.Now,
		Env: func(name string) string { return map[string]string{"TASKLOCK_OWNER": "me"}[name] },
	}, session.Program{Open: open})
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestOneMeansFree: an error that nobody knows is 1, but not from check, whose
// 1 means free.
func TestOneMeansFree(t *testing.T) {
	missing := func(context.Context, string, *driver.OpenOptions) (driver.Store, error) {
		return nil, driver.ErrMissing
	}
	for args, want := range map[string]int{"list --json": 1, "check x": 8, "check x --json": 8, "check x -q": 1, "check": 2} {
		var stderr bytes.Buffer
		if got := mainTo(t, missing, full{}, &stderr, strings.Fields(args)...); got != want {
			t.Errorf("%s: exit %d, want %d: %s", args, got, want, &stderr)
		}
	}
}

// TestStoreThatCannotBeOpened: unreachable is not free.
func TestStoreThatCannotBeOpened(t *testing.T) {
	strange := func(context.Context, string, *driver.OpenOptions) (driver.Store, error) {
		return nil, fmt.Errorf("%w: strange", store.ErrUnreachable)
	}
	for _, args := range []string{"list", "acquire x", "check x", "release x", "wait x"} {
		if got, _, stderr := mainWith(t, strange, strings.Fields(args)...); got != 8 {
			t.Errorf("%s: exit %d: %s", args, got, stderr)
		}
	}
}

func TestPanicIsOneLine(t *testing.T) {
	broken := func(context.Context, string, *driver.OpenOptions) (driver.Store, error) { panic("a\nb\x1b[2J") }
	code, stdout, stderr := mainWith(t, broken, "list")
	if want := "Error: this is a bug in tasklock: a^Jb^[[2J\n"; code != 1 || stdout != "" || stderr != want {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
}

// TestErrorsOfTheStoreAreCleaned: whatever a server says, it is one line and
// cannot act.
func TestErrorsOfTheStoreAreCleaned(t *testing.T) {
	rude := func(context.Context, string, *driver.OpenOptions) (driver.Store, error) {
		return nil, fmt.Errorf("%w: \x1b]0;title\a\nsecond line", driver.ErrDenied)
	}
	code, _, stderr := mainWith(t, rude, "list")
	if code != 5 || strings.ContainsAny(stderr, "\x1b\a") || !strings.HasSuffix(stderr, "; second line\nNext: tasklock doctor\n") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
