package cli

import (
	"context"
	"errors"
	"time"

	"github.com/tasklock/tasklock/store"
)

// waits notes that the command has begun to wait, and for how long it may.
func (a *App) waits(wait time.Duration) {
	if a.waitEnds.IsZero() {
		a.wait, a.waitEnds = wait, time.Now().Add(wait)
	}
}

// left is how much of a wait is left where a command is carried out again.
func (a *App) left(wait time.Duration) time.Duration {
	if a.waitEnds.IsZero() {
		return wait
	}
	left := time.Until(a.waitEnds)
	if left > time.Second {
		left = left.Round(time.Second) // for people
	}
	return max(time.Millisecond, left)
}

// asksAgain reports that a command must be carried out again, because the store
// in which it waited was moved away, or is being filled from a backup. It
// returns when the configuration names another store, or that one may be open
// again, and false when the wait is over. Where a flag or the environment names the
// store, nothing can change it.
func (a *App) asksAgain(ctx context.Context, err error) bool {
	moved := errors.Is(err, store.ErrMoved)
	if a.waitEnds.IsZero() || a.cfg == nil || !moved && !errors.Is(err, store.ErrFilling) {
		return false
	}
	old, named := a.cfg.Store()
	if _, file := a.cfg.origin("store"); moved && (a.cfg.ofLease || named && file == "") {
		return false
	}
	if moved {
		a.note("Note: %v; the wait goes on there as soon as the configuration names it: %s", err, a.problem(err).Next)
	}
	for pause := 100 * time.Millisecond; time.Until(a.waitEnds) > pause; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
		if a.st != nil {
			_ = a.st.Close()
		}
		a.cfg, a.cfgErr, a.st, a.life = nil, nil, nil, nil
		cfg, err := a.Config()
		if err != nil { // it is being written
			continue
		}
		if url, _ := cfg.Store(); url != old || !moved {
			return true
		}
	}
	return false
}
