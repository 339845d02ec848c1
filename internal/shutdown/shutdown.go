// Package shutdown ends a program that works for others in two steps: first it
// takes nothing more, and after a time of grace it stops what it runs.
package shutdown

import (
	"context"
	"os"
	"os/signal"
	"time"
)

// Options of [New].
type Options struct {
	Grace   time.Duration // between the two steps
	Cause   error         // of the end of both contexts
	Signals []os.Signal   // the first takes the first step, the second does not wait for Grace
	Heard   func(os.Signal)
}

// Steps are the two steps.
type Steps struct {
	Soft context.Context // ended: take nothing more
	Hard context.Context // ended: stop what runs

	o      Options
	soften context.CancelCauseFunc
	harden context.CancelCauseFunc
	late   chan *time.Timer
	heard  chan os.Signal
	done   chan struct{}
}

// New derives the steps from ctx, whose end is the first step. The caller must
// call Close.
func New(ctx context.Context, o Options) *Steps {
	s := &Steps{o: o, late: make(chan *time.Timer, 1), heard: make(chan os.Signal, 2), done: make(chan struct{})}
	s.Soft, s.soften = context.WithCancelCause(ctx)
	s.Hard, s.harden = context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(s.Soft, func() { s.late <- time.AfterFunc(o.Grace, func() { s.harden(o.Cause) }) })
	if len(o.Signals) > 0 { // none would be all of them
		signal.Notify(s.heard, o.Signals...)
	}
	go s.listen()
	return s
}

func (s *Steps) listen() {
	defer close(s.done)
	for sig := range s.heard {
		if s.Soft.Err() != nil {
			s.harden(s.o.Cause)
		}
		s.o.Heard(sig)
		s.Stop()
	}
}

// Stop takes the first step.
func (s *Steps) Stop() { s.soften(s.o.Cause) }

// Close ends both contexts and gives the signals back.
func (s *Steps) Close() {
	signal.Stop(s.heard)
	close(s.heard)
	<-s.done
	s.Stop()
	(<-s.late).Stop()
	s.harden(nil)
}

// Heeded leaves out the signals that were ignored when the program started:
// nohup and background jobs mean it.
func Heeded(signals ...os.Signal) (heeded []os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			heeded = append(heeded, s)
		}
	}
	return heeded
}
