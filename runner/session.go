package runner

import (
	"cmp"
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
)

// session is one command under one lease, seen from the wrapper.
type session struct {
	o           Options
	path        string
	cannotStart error // why the command of the claim cannot be started
	keeper      keeper
	lease       *lease.Lease
	cancel      context.CancelCauseFunc // of the lease's context

	env         []string // from the claim
	finishClaim func(context.Context, Result, error) error

	signals  chan os.Signal
	terminal *terminal

	trusted  host.Moment      // the last moment at which the lease was relied on
	stopping bool             // the command has to end
	backup   <-chan time.Time // the supervisor did not obey: kill
	kin      *family          // whom
	started  bool
	pid      int  // of the command
	ended    bool // the command's end was reported

	res Result
	err error
}

// window is how the time between the end of trust in the lease and the end of
// its ttl is spent.
type window struct {
	grace time.Duration // between TERM and KILL
	spare time.Duration // for the steps in between
	look  time.Duration // how often the supervisor hears how long it may rely on the lease
}

func (s *session) window() window {
	ttl := s.lease.TTL()
	_, grace := lease.Window(ttl)
	w := window{grace: grace, spare: ttl / 40, look: min(time.Second, ttl/30)}
	if s.o.Grace > 0 {
		w.grace = min(w.grace, s.o.Grace)
	}
	return w
}

// work starts the command and stays with it until nothing of it is left.
func (s *session) work(ctx context.Context) {
	if s.o.Forward {
		s.catch(jobControl...)
	}
	s.terminal = openTerminal(s.o.Stdin)
	defer func() { s.terminal.takeBack(s.res.ExitCode > 128) }()
	s.start()
	look := time.NewTicker(s.window().look)
	defer look.Stop()
	done, lost := ctx.Done(), s.lease.Context().Done()
	for {
		select {
		case r, ok := <-s.keeper.reports():
			if !ok {
				s.keeper.close()
				s.noteSupervisorGone()
				return
			}
			s.noteReport(r)
		case sig := <-s.heard():
			s.forward(sig)
		case <-done:
			done = nil
			s.fail(context.Cause(ctx))
			s.stop("cancelled", s.window().grace)
		case <-lost:
			lost = nil
			s.endLost(context.Cause(s.lease.Context()))
		case <-look.C:
			s.passOnTrust()
		case <-s.backup:
			s.o.logf("killing the group")
			s.kin.kill()
			s.keeper.signal(syscall.SIGKILL)
		}
	}
}

func (s *session) start() {
	w := s.window()
	s.trusted = host.Now()
	switch err := s.lease.Err(); {
	case errors.Is(err, lease.ErrLost):
		s.endLost(err)
		return
	case err != nil || s.cannotStart != nil: // the wait was ended in the moment of the grant
		s.res = s.res.failed(s.fail(cmp.Or(err, s.cannotStart)))
		s.stop("not started", 0)
		return
	}
	foreground := s.terminal.give(s.keeper.group())
	s.order(order{At: s.trusted, Trust: s.lease.Left(), Grace: w.grace, Start: &spec{
		Path: s.path, Args: s.o.Command, Dir: s.o.Dir, Env: environment(s.o.Env, s.o.Acquire.Keys, s.res.Grant, s.env),
		Grace: w.grace, Foreground: foreground,
	}})
}

// heard is where signals come from, but not before the command can take them.
func (s *session) heard() <-chan os.Signal {
	if !s.started {
		return nil
	}
	return s.signals
}

// order gives an order. One that does not arrive needs no answer: either the
// supervisor has ended, which its reports will say, or its deadline comes.
func (s *session) order(o order) {
	if err := s.keeper.order(o); err != nil {
		s.o.logf("order to the guardian: %v", err)
	}
}

// passOnTrust looks at the lease and passes on how long it may be relied on. The moment
// is taken before the look: whatever happens in between, a pause above all,
// errs to safety.
func (s *session) passOnTrust() {
	at := host.Now()
	if err := s.lease.Err(); errors.Is(err, lease.ErrLost) {
		s.endLost(err)
		return
	}
	s.trusted = at
	if s.started {
		s.order(order{At: at, Trust: s.lease.Left(), Grace: s.window().grace})
	}
}

// endLost ends the command because the lease is lost. The more time has passed
// since the lease was last relied on, the less grace is left.
func (s *session) endLost(err error) {
	if s.res.Lost != nil || !errors.Is(err, lease.ErrLost) {
		return
	}
	s.noteLoss(err)
	w := s.window()
	late := host.Now().Since(s.trusted)
	s.stop("lease lost", max(0, min(w.grace, w.grace+2*w.spare-late)))
}

// stop orders the end of the command, and is ready to do it itself.
func (s *session) stop(why string, grace time.Duration) {
	s.o.logf("%s: TERM, and KILL in %s", why, grace)
	s.stopping = true
	now := host.Now()
	s.kin = s.family()
	s.order(order{At: now, Stop: true, Grace: grace})
	s.backup = time.After(grace + s.window().spare)
}

// family is that of the command, seen from here. It is found before the command gets
// a signal: later, a child of a parent that has ended would not be found.
func (s *session) family() *family {
	f := &family{group: s.keeper.group(), command: s.pid}
	if f.group != s.pid {
		f.leader = f.group
	}
	f.members()
	return f
}

// noteReport takes in a report.
func (s *session) noteReport(r report) {
	switch {
	case r.Started != 0:
		s.started, s.pid = true, r.Started
		s.o.logf("started %s as process %d", s.path, r.Started)
		s.terminal.started(s.keeper.group())
	case r.Failed != "":
		s.ended = true
		err := errors.New(r.Failed)
		if r.Errno != 0 {
			err = syscall.Errno(r.Errno)
		}
		s.res = s.res.failed(s.fail(startError(s.o.Command[0], err)))
	case r.Overdue:
		if s.res.Lost == nil && !s.stopping {
			s.noteLoss(s.lease.Overdue())
		}
		s.stopping = true
	case r.Exit != nil:
		s.ended = true
		s.res.ExitCode = r.Exit.Code
		if r.Exit.Signal != 0 {
			s.res.ExitCode = 128 + r.Exit.Signal
		}
		s.o.logf("ended with code %d", s.res.ExitCode)
	}
}

// noteSupervisorGone draws the conclusion from a supervisor that is gone, and with it
// the whole group. One that had to use KILL could not report what it did.
func (s *session) noteSupervisorGone() {
	if s.ended {
		return
	}
	if s.started {
		s.res.ExitCode = 128 + int(syscall.SIGKILL)
	}
	if !s.stopping {
		if err := s.lease.Err(); errors.Is(err, lease.ErrLost) {
			s.noteLoss(err)
			return
		}
		s.fail(ErrGuardian)
	}
}

// fail keeps the first error and returns its argument.
func (s *session) fail(err error) error {
	if s.err == nil {
		s.err = err
	}
	return err
}

// finish gives the lease back. Nothing runs under it any more.
func (s *session) finish(ctx context.Context) (Result, error) {
	defer s.cancel(nil)
	if cause := context.Cause(s.lease.Context()); errors.Is(cause, lease.ErrLost) {
		s.noteLoss(cause)
		return s.res, s.err // its heartbeat has ended and there is nothing to release
	}
	patience := min(s.lease.TTL(), releaseTime)
	if s.res.Lost != nil { // out of time, and so perhaps is the store: only make sure that the heartbeat ends
		patience = s.window().spare
	}
	// Nobody waits for it once patience is over: a store that hangs cannot be stopped.
	done := make(chan error, 1)
	res, failed := s.res, s.err
	go func() { done <- s.release(context.WithoutCancel(ctx), res, failed) }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		s.released(err)
	case <-timer.C:
		s.fail(errors.New("release: the store does not answer; the lease ends by itself"))
	}
	return s.res, s.err
}

func (s *session) release(ctx context.Context, res Result, err error) error {
	if s.finishClaim == nil {
		return s.lease.Release(ctx)
	}
	return s.lease.ReleaseWith(ctx, func(ctx context.Context) error { return s.finishClaim(ctx, res, err) })
}

// releaseTime bounds how long an unreachable store keeps us after the command.
const releaseTime = 10 * time.Second

func (s *session) released(err error) {
	switch {
	case err == nil:
		s.o.logf("released")
	case errors.Is(err, lease.ErrLost):
		s.noteLoss(err)
	default:
		s.fail(err)
	}
}

// noteLoss keeps the first reason why the lease is lost.
func (s *session) noteLoss(err error) {
	if s.res.Lost == nil {
		s.res.Lost = err
	}
	s.fail(err)
}
