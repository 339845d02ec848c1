package session

import (
	"context"
	"errors"
	"time"

	"github.com/tasklock/tasklock/store"
)

// Patience is how long a command may wait, and until when.
type Patience struct {
	For  time.Duration
	Ends time.Time
}

// Starts is a wait that begins now.
func Starts(wait time.Duration) Patience { return Patience{wait, time.Now().Add(wait)} }

// Waited adds to an error the wait that it ended.
func Waited(err error, wait Patience) error {
	if err == nil || wait == (Patience{}) {
		return err
	}
	return &Attempt{Err: err, Waited: wait}
}

// patienceKey finds in the context of a further attempt the wait that the first
// one began.
type patienceKey struct{}

// Begun is the wait that an earlier attempt of the command began, zero in the
// first.
func Begun(ctx context.Context) Patience {
	p, _ := ctx.Value(patienceKey{}).(Patience)
	return p
}

// Left is the rest of a wait when a command runs again.
func Left(ctx context.Context, wait time.Duration) time.Duration {
	begun := Begun(ctx)
	if begun == (Patience{}) {
		return wait
	}
	left := time.Until(begun.Ends)
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
func (s *Session) asksAgain(ctx context.Context, wait Patience, err error) bool {
	moved := errors.Is(err, store.ErrMoved)
	cfg := s.settings.cfg
	if wait == (Patience{}) || cfg == nil || !moved && !errors.Is(err, store.ErrFilling) {
		return false
	}
	old, named := cfg.Store()
	if _, file := cfg.Origin("store"); moved && (cfg.OfLease || named && file == "") {
		return false
	}
	if moved {
		s.Note("Note: %v; the wait goes on there as soon as the configuration names it: %s", err, s.Problem(err).Next)
	}
	for pause := 100 * time.Millisecond; time.Until(wait.Ends) > pause; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
		if s.opened.store != nil {
			_ = s.opened.store.Close()
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
