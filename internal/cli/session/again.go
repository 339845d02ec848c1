package session

import (
	"context"
	"errors"
	"time"

	"github.com/tasklock/tasklock/store"
)

// Waits notes that the command has begun to wait, and for how long it may.
func (s *Session) Waits(wait time.Duration) {
	if s.waitEnds.IsZero() {
		s.Wait, s.waitEnds = wait, time.Now().Add(wait)
	}
}

// Left is the rest of a wait when a command runs again.
func (s *Session) Left(wait time.Duration) time.Duration {
	if s.waitEnds.IsZero() {
		return wait
	}
	left := time.Until(s.waitEnds)
	if left > time.Second {
		left = left.Round(time.Second) // for people
	}
	return max(time.Millisecond, left)
}

// asksAgain reports whether a command must run again, because the store in which
// it waited was moved away, or is being filled from a backup. It returns when the
// configuration names another store, or that one may be open again, and false when
// the wait is over. If a flag or the environment names the store, nothing can
// change it.
func (s *Session) asksAgain(ctx context.Context, err error) bool {
	moved := errors.Is(err, store.ErrMoved)
	if s.waitEnds.IsZero() || s.Cfg == nil || !moved && !errors.Is(err, store.ErrFilling) {
		return false
	}
	old, named := s.Cfg.Store()
	if _, file := s.Cfg.Origin("store"); moved && (s.Cfg.OfLease || named && file == "") {
		return false
	}
	if moved {
		s.Note("Note: %v; the wait goes on there as soon as the configuration names it: %s", err, s.Problem(err).Next)
	}
	for pause := 100 * time.Millisecond; time.Until(s.waitEnds) > pause; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
		if s.st != nil {
			_ = s.st.Close()
		}
		s.Forget()
		cfg, err := s.Config()
		if err != nil { // it is being written
			continue
		}
		if url, _ := cfg.Store(); url != old || !moved {
			return true
		}
	}
	return false
}
