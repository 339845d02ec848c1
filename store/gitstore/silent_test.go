//go:build unix

package gitstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// hang makes the server wait for ever with every push. The log has a line for
// each: the ids of two processes that wait.
func hang(t testing.TB, remote string) (log string) {
	log = filepath.Join(t.TempDir(), "log")
	hook := filepath.Join(remote, "hooks", "pre-receive")
	write(t, hook, "#!/bin/sh\necho 'waiting for approval' >&2\nsleep 3600 &\necho $$ $! >>"+log+"\nwait\n")
	must(t, os.Chmod(hook, 0o755))
	return log
}

func pushes(log string) (lines []string) {
	text, _ := os.ReadFile(log)
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// A server that takes a push and says nothing more: the call ends when its time
// is over, with the words heard so far, after one push. What git started is
// gone, and the next process of the machine has its turn.
func TestSilentHook(t *testing.T) {
	t.Parallel()
	remote, cache := newRemote(t), t.TempDir()
	with := func(o *gitstore.Options) { o.Cache = cache }
	s := open(t, remote, with)
	commit(t, s, put("lock/a", `{}`))
	log := hang(t, remote)
	for limit := time.Second; len(pushes(log)) == 0; limit *= 4 { // on a busy machine it may not get that far
		gitstore.LimitTime(s, limit)
		_, err := s.Commit(t.Context(), put("lock/b", `{}`))
		switch {
		case !sameClass(err, nil) || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "--timeout"):
			t.Fatalf("Commit: %v", err)
		case len(pushes(log)) > 0 && errors.Is(err, driver.ErrUntouched):
			t.Errorf("a push that may yet arrive: %v", err)
		case len(pushes(log)) > 0 && !strings.Contains(err.Error(), "it said: remote: waiting for approval"):
			t.Errorf("not a word of what git said: %v", err)
		}
	}
	lines := pushes(log)
	if len(lines) != 1 {
		t.Errorf("%d pushes in one call", len(lines))
	}
	for _, id := range strings.Fields(lines[0]) {
		pid, err := strconv.Atoi(id)
		must(t, err)
		patience.Until(t, "process "+id+" ends", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) })
	}

	// Who waits for the turn of one who waits for the server.
	other := open(t, remote, with)
	gitstore.LimitTime(s, 10*time.Minute)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	gone := make(chan error, 1)
	go func() { _, err := s.Commit(ctx, put("lock/c", `{}`)); gone <- err }()
	patience.Until(t, "the push", func() bool { return len(pushes(log)) == 2 })
	gitstore.LimitTime(other, 500*time.Millisecond)
	if _, err := other.Commit(t.Context(), put("lock/d", `{}`)); !sameClass(err, nil) || !errors.Is(err, driver.ErrUntouched) {
		t.Errorf("a turn that did not come: %v", err)
	}
	leave()
	<-gone
	must(t, os.Remove(filepath.Join(remote, "hooks", "pre-receive")))
	gitstore.LimitTime(other, 2*time.Minute)
	commit(t, other, put("lock/d", `{}`))
}

// zombie reports a process that has ended, and whose parent has not asked yet.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// Nobody is asked: a program that asks on the desktop is not started. One that
// the user names for git is.
func TestAskPass(t *testing.T) {
	f := newForge(t)
	f.rule(basicAuth("me", "s3cret"), nil)
	dir := t.TempDir()
	window, answers := filepath.Join(dir, "window"), filepath.Join(dir, "answers")
	write(t, window, "#!/bin/sh\ntouch "+dir+"/opened\necho s3cret\n")
	write(t, answers, "#!/bin/sh\ncase $1 in Username*) echo me ;; *) echo s3cret ;; esac\n")
	for _, program := range []string{window, answers} {
		must(t, os.Chmod(program, 0o755))
	}
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("DISPLAY", ":9")
	t.Setenv("SSH_ASKPASS", window)
	t.Setenv("SSH_ASKPASS_REQUIRE", "force")
	t.Setenv("GIT_ASKPASS", "")
	if _, err := tryOpen(t, f.url()); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("without credentials: %v", err)
	}
	ssh := filepath.Join(dir, "ssh")
	write(t, ssh, "#!/bin/sh\nif [ -n \"$SSH_ASKPASS\" ] || [ \"$SSH_ASKPASS_REQUIRE\" != never ]; then touch "+dir+"/opened; fi\nfor last; do :; done\nexec sh -c \"$last\"\n")
	must(t, os.Chmod(ssh, 0o755))
	t.Setenv("GIT_SSH_COMMAND", ssh)
	commit(t, open(t, "git@example.com:"+newRemote(t)), put("lock/a", `{}`))
	if _, err := os.Stat(filepath.Join(dir, "opened")); err == nil {
		t.Error("a window was opened")
	}
	t.Setenv("GIT_ASKPASS", answers)
	commit(t, open(t, f.url()), put("lock/a", `{}`))
}
