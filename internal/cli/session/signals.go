package session

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/tasklock/tasklock/internal/problem"
)

// SignalError ends a command that was interrupted while it waited.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "interrupted" }

func (e *SignalError) Problem(problem.Caller) problem.Problem { return problem.Interrupted(e.Signal) }

// Interrupted returns the signal that ended ctx in place of the error that it
// caused.
func Interrupted(ctx context.Context, err error) error {
	var s *SignalError
	if err != nil && errors.As(context.Cause(ctx), &s) {
		return s
	}
	return err
}

// A Listener ends a context with Ctrl+C, SIGTERM or the end of the terminal, once
// it listens: a short command does not pay for it. The signal is the context's
// cause; Interrupted turns that into the command's error.
type Listener struct {
	cancel context.CancelCauseFunc
	once   sync.Once
	ch     chan os.Signal
	done   <-chan struct{}
}

// NewListener returns a context that signals can end, and who listens for them.
func NewListener(ctx context.Context) (context.Context, *Listener) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &Listener{cancel: cancel, ch: make(chan os.Signal, 1), done: ctx.Done()}
}

// Listen returns a context that signals end from now on, until stop is called.
func Listen(ctx context.Context) (_ context.Context, stop func()) {
	ctx, l := NewListener(ctx)
	l.Listen()
	return ctx, l.Stop
}

// Listen takes the signals from now on.
func (l *Listener) Listen() {
	l.once.Do(func() {
		signal.Notify(l.ch, os.Interrupt, syscall.SIGTERM)
		if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it on purpose
			signal.Notify(l.ch, syscall.SIGHUP)
		}
		go func() {
			select {
			case s := <-l.ch:
				l.cancel(&SignalError{s})
			case <-l.done:
			}
		}()
	})
}

// Stop leaves the signals to the rest of the program.
func (l *Listener) Stop() {
	signal.Stop(l.ch)
	l.cancel(context.Canceled)
}
