package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/shutdown"
	"github.com/tasklock/tasklock/store"
)

// Options of [Run].
type Options struct {
	// Acquire says what to hold. The holder is a child of its Owner. Process
	// and Group are filled in.
	Acquire AcquireRequest

	// Claim, if set, takes the lease by Acquire, with Process and Group filled in:
	// it may choose the keys.
	Claim func(ctx context.Context, r AcquireRequest) (Claim, error)

	Command []string // the program and its arguments; none: the claim has one
	Dir     string   // empty: where we are
	Env     []string // nil: os.Environ(); TASKLOCK_* of the lease are added

	// The command's files. Nil is the null device, an *os.File is handed
	// through as it is, anything else is copied.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Grace is the time between TERM and KILL. 0 and whatever is longer mean the
	// longest time after which the lease is still safe: a sixth of its ttl, at
	// most 10 seconds.
	Grace time.Duration

	// Forward takes the signals of this process: while the lease is waited
	// for they end the wait with a *SignalError, afterwards they go to the
	// command. The caller must not tie ctx to the same signals.
	Forward bool

	// Guardian is how to start the guardian: a program and arguments that end
	// up in GuardianMain with the last argument. Nil: no guardian.
	Guardian []string

	// Holding, if set, is called once the lease is there, before the command
	// starts and has the terminal.
	Holding func(Grant)

	// Log gets each step, for people. May be nil.
	Log func(format string, args ...any)
}

// Claim is a lease together with what the command is to know about it.
type Claim struct {
	Lease *Lease
	Args  []string // of the command, instead of those in Options; nil: those
	Env   []string // added to the command's

	// Command and Dir, if set, take the place of those in Options, which may
	// then have none. Finish gets the error of one that cannot start.
	Command []string
	Dir     string

	// Finish, if set, gives the lease back by a commit of its own when nothing
	// of the command is left. err is what Run would return. It is not called
	// once the lease is known to be lost.
	Finish func(ctx context.Context, res Result, err error) error
}

// Result tells how the command ended.
type Result struct {
	Grant Grant // zero if nothing was granted

	// ExitCode is the command's: 128+n when signal n ended it, 126 when it
	// could not be started, 127 when it was not found, and for a signal that
	// ended the wait 128+n too. -1: it never ran for another reason.
	ExitCode int

	// Lost is why the lease could not be kept to the end; it is a
	// lock.ErrLost, and Run returns it as its error. The command is dead.
	Lost error
}

// StartError: the command could not be started. Nothing of it has run.
type StartError struct {
	Command  string
	ExitCode int // 126: found but not to be executed; 127: not found
	Err      error
}

func (e *StartError) Error() string { return fmt.Sprintf("%s: %s", e.Command, reason(e.Err)) }
func (e *StartError) Unwrap() error { return e.Err }

// SignalError: a signal ended the wait for the lease.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return fmt.Sprintf("interrupted by signal: %s", e.Signal) }

// ErrGuardian: the guardian ended before its time. The command was killed.
var ErrGuardian = errors.New("the guardian of the command ended unexpectedly")

// Run acquires the keys, runs the command while they are held, and releases
// them when nothing of the command is left.
//
// Errors of the acquisition pass through as they are (*lock.HeldError and so
// on), and nothing has run then. A command that does not exist is a
// [*StartError] without any lock taken. The end of ctx stops the command
// (TERM, grace, KILL), releases, and returns the cause. An error besides a
// valid ExitCode says what went wrong beside the command: the lease was lost,
// the guardian was killed, the release did not get through.
func Run(ctx context.Context, st *store.Store, o Options) (Result, error) {
	res := Result{ExitCode: -1}
	path, err := o.check()
	if err != nil {
		return res.failed(err), err
	}
	s := &session{o: o, path: path, res: res}
	if o.Forward {
		stop := s.catch(forwarded...)
		defer stop()
	}
	if s.keeper, err = o.keeper(); err != nil {
		return res, err
	}
	if err = s.acquire(ctx, st); err != nil {
		s.keeper.close()
		return res.failed(err), err
	}
	s.work(ctx)
	return s.finish(ctx)
}

// failed fills in the exit code that belongs to the error, if one does.
func (r Result) failed(err error) Result {
	if start, ok := errors.AsType[*StartError](err); ok {
		r.ExitCode = start.ExitCode
	} else if sig, ok := errors.AsType[*SignalError](err); ok {
		if n, ok := sig.Signal.(syscall.Signal); ok {
			r.ExitCode = 128 + int(n)
		}
	}
	return r
}

// keeper starts the guardian of the command, or a goroutine that takes its
// place.
func (o *Options) keeper() (keeper, error) {
	if len(o.Guardian) > 0 && hasGuardian {
		return startGuardian(o)
	}
	return newAttendant(o), nil
}

func (o *Options) logf(format string, args ...any) {
	if o.Log != nil {
		o.Log(format, args...)
	}
}

// acquire holds the keys. Signals and the end of ctx end the wait, but not the
// lease once it is there: the command may take its time to stop.
func (s *session) acquire(ctx context.Context, st *store.Store) error {
	hold, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	granted, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case sig := <-s.signals:
				if ends(sig) {
					cancel(&SignalError{Signal: sig})
					return
				}
			case <-granted:
				return
			}
		}
	}()
	r := s.o.Acquire
	if r.Process.PID == 0 {
		r.Process = host.Self()
	}
	r.Group = s.keeper.group()
	err := s.claim(hold, st, r)
	close(granted)
	<-done
	unlink()
	if err != nil {
		cancel(nil)
		if sig, ok := errors.AsType[*SignalError](context.Cause(hold)); ok {
			err = sig
		}
		return err
	}
	s.cancel = cancel
	s.res.Grant = s.lease.Grant()
	if s.o.Holding != nil {
		s.o.Holding(s.res.Grant)
	}
	s.o.logf("holding lease %s with token %d", s.res.Grant.LeaseID, s.lease.Token())
	return nil
}

// claim takes the lease, by the options' own way if they have one.
func (s *session) claim(ctx context.Context, st *store.Store, r lease.AcquireRequest) (err error) {
	if s.o.Claim == nil {
		s.lease, err = lease.Hold(ctx, st, r)
		return err
	}
	c, err := s.o.Claim(ctx, r)
	if err != nil {
		return err
	}
	s.lease, s.env, s.finishClaim = c.Lease, c.Env, c.Finish
	if c.Args != nil {
		s.o.Command = append([]string{s.o.Command[0]}, c.Args...)
	}
	if c.Command != nil {
		s.o.Command, s.o.Dir = c.Command, cmp.Or(c.Dir, s.o.Dir)
		s.path, s.cannotStart = s.o.find()
	}
	return nil
}

// ends reports whether the signal ends a wait.
func ends(sig os.Signal) bool {
	switch sig {
	case os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// catch adds signals to those the session hears of.
func (s *session) catch(sigs ...os.Signal) (stop func()) {
	if s.signals == nil {
		s.signals = make(chan os.Signal, 16)
	}
	if sigs = shutdown.Heeded(sigs...); len(sigs) > 0 {
		signal.Notify(s.signals, sigs...)
	}
	return func() { signal.Stop(s.signals) }
}
