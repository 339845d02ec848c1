package lockcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// watch --exec is two processes. The outer one is a run of the inner one: it holds
// the key of the cursor, and stops the inner one with all it has started before
// anyone else can get the key. The inner one reads the events and runs the command.

// hold runs this command again, as the inner process.
func (o *watchOptions) hold(ctx context.Context, s *session.Session, st *store.Store, keys, command []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	take := hold.TakeOptions{Reason: "runs " + term.QuotedLine(command)}
	req, err := take.Request(ctx, s, []string{lease.CursorKey(o.cursor)}, true)
	if err != nil {
		return err
	}
	req.Wait = lease.MaxTTL // another watcher of the same cursor stands by
	w := hold.NewWait(s, req.Wait)
	req.Waiting = w.Update
	res, err := runner.Run(ctx, st, runner.Options{
		Acquire: req, Command: o.inner(s, self, keys, command), Dir: s.Dir, Env: s.LeaseEnviron(ctx), Stdout: s.Stdout, Stderr: s.Stderr,
		Forward: true, Guardian: []string{self, session.GuardianVerb},
		Holding: func(g lease.Grant) { w.End(true, len(g.TookOver) > 0) },
	})
	w.End(false, false)
	var signal *runner.SignalError
	switch err = w.Failed(err); {
	case errors.As(err, &signal):
		return nil // that is how a watch ends
	case err != nil:
		return err
	case res.ExitCode != 0:
		return session.ExitError(problem.Exit(res.ExitCode))
	}
	return nil
}

// inner is the command line of the inner process.
func (o *watchOptions) inner(s *session.Session, self string, keys, command []string) []string {
	words := []string{self, "watch", "--exec", o.cursor, "--under"}
	if s.StoreURL != "" {
		words = append(words, "--store", s.StoreURL)
	}
	if s.Timeout != "" {
		words = append(words, "--timeout", s.Timeout)
	}
	if s.UnsafeFS {
		words = append(words, "--allow-unsafe-fs")
	}
	if s.Quiet {
		words = append(words, "--quiet")
	}
	if s.NoColor {
		words = append(words, "--no-color")
	}
	if s.JSON {
		words = append(words, "--json")
	}
	if o.since != lease.FromNow {
		words = append(words, "--since", strconv.FormatInt(o.since, 10))
	}
	if o.count > 0 {
		words = append(words, "--count", strconv.Itoa(o.count))
	}
	words = append(append(words, keys...), "--")
	return append(words, command...)
}

// deliver runs the command for each event, under the lease of the outer process.
func (o *watchOptions) deliver(ctx context.Context, s *session.Session, st *store.Store, keys, command []string) error {
	token, err := strconv.ParseInt(s.Env("TASKLOCK_TOKEN"), 10, 64)
	if err != nil {
		return session.Usagef("--under: TASKLOCK_TOKEN is not a token")
	}
	r := lease.DeliverRequest{Cursor: o.cursor, Since: o.since, Owner: s.Env("TASKLOCK_OWNER"), Lease: s.Env("TASKLOCK_LEASE"), Token: token}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	ready := func(rev int64) { s.Note("Watching after revision %d... (Ctrl+C to end)", rev) }
	err = lease.Deliver(ctx, st, r, ready, func(g lease.Group) error {
		for _, line := range linesOf(g, keys, s.CommandLine("list")) {
			if err := runFor(ctx, s, line, command); err != nil {
				return err
			}
			o.seen++
		}
		if o.count > 0 && o.seen >= o.count {
			end(errEnough) // once the cursor has moved
		}
		return nil
	})
	if context.Cause(ctx) == errEnough && errors.Is(err, context.Canceled) {
		err = errEnough
	}
	return err
}

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
	lastGrace  = 5 * time.Second // of a command that is to stop
)

// runFor runs the command with the event on its input, until it succeeds.
func runFor(ctx context.Context, s *session.Session, e watchedEvent, command []string) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(text, '\n')), s.Stdout, s.Stderr
		cmd.Dir, cmd.Env = s.Dir, s.Environ
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = lastGrace
		err := cmd.Run()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		s.Warn("the command failed for event %q of revision %d: %v; the next attempt is in %s", e.Event.Event, e.Rev, err, term.Exact(pause))
		if err := driver.Sleep(ctx, pause); err != nil {
			return context.Cause(ctx)
		}
	}
}
