package landing

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// How long a test has after a signal, which it gets as part of our process group: to
// end by itself, and to end after TERM.
const (
	ownEnd  = 5 * time.Second
	termEnd = 5 * time.Second
)

// test runs the test in the user's worktree. Its output goes to the log too.
func (l *landing) test(ctx context.Context) error {
	l.result.Log = l.file("land.log")
	log, err := os.Create(l.result.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	l.say(Event{Step: Testing, To: l.head, Log: l.result.Log})
	l.began = true
	began := time.Now()
	cmd := exec.Command(l.Test[0], l.Test[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.WaitDelay = l.Dir, l.Environ, l.Stdin, time.Second
	var out io.Writer = log
	if l.Output != nil {
		out = io.MultiWriter(log, l.Output)
	}
	cmd.Stdout, cmd.Stderr = out, out
	err = attend(ctx, cmd)
	if ctx.Err() != nil {
		return cause(ctx, ctx.Err())
	}
	if err := l.judge(err); err != nil {
		return err
	}
	if err := l.same(ctx); err != nil {
		return err
	}
	l.say(Event{Step: Tested, To: l.head, Seconds: time.Since(began).Seconds(), Log: l.result.Log})
	return nil
}

// attend starts a command and waits for its end. After the end of ctx the command has
// some time, because the signal that ended ctx has reached it too.
func attend(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	for _, next := range []struct {
		after time.Duration
		sig   os.Signal
	}{{ownEnd, syscall.SIGTERM}, {termEnd, os.Kill}} {
		timer := time.NewTimer(next.after)
		select {
		case err := <-ended:
			timer.Stop()
			return err
		case <-timer.C:
			_ = cmd.Process.Signal(next.sig)
		}
	}
	return <-ended
}

// judge turns the end of the test into an error.
func (l *landing) judge(err error) error {
	e := &TestError{Command: brief(strings.Join(l.Test, " ")), Log: l.result.Log, ExitCode: 126, Err: err}
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // what it left behind keeps its output open
		return nil
	case errors.As(err, &exit):
		e.ExitCode, e.Err = exit.ExitCode(), nil
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			e.ExitCode = 128 + int(ws.Signal())
		}
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		e.ExitCode = 127
	}
	return e
}

// same refuses to push if the worktree is not what would be pushed: then nobody has
// tested that.
func (l *landing) same(ctx context.Context) error {
	if commit, _ := l.where(ctx); commit != l.head {
		return &NotReadyError{
			Code: "TEST_CHANGED_HEAD", Why: "HEAD moved during the test, to " + commit + "; what was tested is not what would be pushed",
			Next: []string{"git", "show", commit},
		}
	}
	changed, _, err := l.changes(ctx)
	if err == nil && len(changed) > 0 {
		return &NotReadyError{
			Code: "TEST_CHANGED_FILES", Why: "the test changed tracked files, so what was tested is not what would be pushed", Files: changed,
			Next: []string{"git", "diff"},
		}
	}
	return err
}

// brief is a command line that fits into a message.
func brief(line string) string {
	const most = 60
	if text := []rune(line); len(text) > most {
		return string(text[:most-1]) + "…"
	}
	return line
}
