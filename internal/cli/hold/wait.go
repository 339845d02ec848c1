package hold

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
)

// Wait tells people about a wait, on stderr. A terminal gets one line that
// lives: how far the deadline is, who holds, which place, when it expires. A
// pipe gets a plain line at the start and then one a minute, so that whoever
// watches for silence sees life.
type Wait struct {
	s    *session.Session
	wait time.Duration
	live bool
	Who  func(*lease.HeldError) string // says in one sentence who is in the way

	mu      sync.Mutex
	begun   session.Patience
	started time.Time
	held    lease.HeldError
	stop    chan struct{} // nil: has not begun
	over    bool
	done    sync.WaitGroup
}

const (
	liveEvery  = 200 * time.Millisecond
	plainEvery = time.Minute
)

// Take acquires keys: people read about the wait, and a signal ends it. who names the
// blocking owner in one sentence.
func Take(ctx context.Context, s *session.Session, wait time.Duration, who func(*lease.HeldError) string, take func(ctx context.Context, waiting func(lease.HeldError)) (lease.Grant, error)) error {
	ctx, signals := session.NewListener(ctx)
	defer signals.Stop()
	w := NewWait(s, wait)
	w.Who = who
	g, err := take(ctx, func(h lease.HeldError) {
		signals.Listen()
		w.Update(h)
	})
	w.End(err == nil, len(g.TookOver) > 0)
	return w.Failed(session.Interrupted(ctx, err))
}

// NewWait is a wait that has not begun.
func NewWait(s *session.Session, wait time.Duration) *Wait {
	return &Wait{s: s, wait: wait, Who: view.LockedText, live: s.Live()}
}

// Update takes the news of the wait. The first begins it.
func (w *Wait) Update(h lease.HeldError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun == (session.Patience{}) {
		w.begun = session.Starts(w.wait)
	}
	if w.s.Quiet {
		return
	}
	w.held = h
	if w.stop != nil {
		return
	}
	w.started = time.Now().Add(-h.Waited)
	w.stop = make(chan struct{})
	if w.live {
		h.Waited = 0
		w.s.Note("%s.\nWaiting for lock... (Ctrl+C to cancel)", w.Who(&h))
	} else {
		w.s.Note("%s", w.plain("Waiting up to "+term.Exact(w.wait)))
	}
	w.done.Add(1)
	go w.keep()
}

func (w *Wait) keep() {
	defer w.done.Done()
	every := plainEvery
	if w.live {
		every = liveEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if w.live {
			w.draw()
		}
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		if !w.live {
			w.mu.Lock()
			line := w.plain("Waiting for " + term.Rough(time.Since(w.started)))
			w.mu.Unlock()
			w.s.Note("%s", line)
		}
	}
}

// Failed adds to an error the wait that it ended, if there was one.
func (w *Wait) Failed(err error) error { return session.Waited(err, w.begun) }

// End clears the live line and says how it ended. Only the first call counts.
func (w *Wait) End(granted, tookOver bool) {
	w.mu.Lock()
	begun := w.stop != nil && !w.over
	w.over = true
	w.mu.Unlock()
	if !begun {
		return
	}
	close(w.stop)
	w.done.Wait()
	if w.live {
		term.Erase(w.s.Stderr)
	}
	switch {
	case granted && tookOver:
		w.s.Note("Lock taken over after %s.", term.Rough(time.Since(w.started)))
	case granted && w.live:
		w.s.Note("Lock released!")
	case granted:
		w.s.Note("Lock released after %s.", term.Rough(time.Since(w.started)))
	}
}

func (w *Wait) draw() {
	w.mu.Lock()
	text := bar(time.Since(w.started), w.wait) + " " + w.facts()
	w.mu.Unlock()
	term.Redraw(w.s.Stderr, text)
}

// facts are the words of the live line, what matters most first: the end may
// be cut off.
func (w *Wait) facts() string {
	h := &w.held
	f := []string{term.Rough(time.Since(w.started)) + " elapsed of " + term.Exact(w.wait)}
	if h.Pool != nil {
		return strings.Join(append(append(f, w.pool()), w.checking()...), ", ")
	}
	if h.Position > 0 {
		f = append(f, fmt.Sprintf("place %d", h.Position))
	}
	if h.Owner != "" {
		f = append(f, "held by "+term.Short(h.Owner, 40))
	}
	switch {
	case h.ExpiresAt.IsZero() && h.Owner != "":
		f = append(f, view.NoEnd)
	case !h.ExpiresAt.IsZero():
		f = append(f, "expires in "+term.Rough(h.ExpiresAt.Sub(w.s.Now())))
	}
	return strings.Join(append(f, w.checking()...), ", ")
}

// pool is how full the pool is, and which place the waiter has.
func (w *Wait) pool() string {
	s := view.Used(w.held.Pool)
	if w.held.Position > 0 {
		s += fmt.Sprintf(", you are #%d", w.held.Position)
	}
	return s
}

// checking says how often a waiter asks where nothing wakes it.
func (w *Wait) checking() []string {
	cfg, err := w.s.Config()
	if err != nil || !cfg.Far() {
		return nil
	}
	return []string{"checking every " + term.Exact(cfg.PollInterval())}
}

// plain is the same for a pipe: the first line says how long the wait may take, later
// ones how long it has taken.
func (w *Wait) plain(waiting string) string {
	now := w.held
	now.Waited = 0
	s := w.Who(&now) + ". " + waiting
	if w.held.Position > 0 && w.held.Pool == nil {
		s += fmt.Sprintf(", place %d in the queue", w.held.Position)
	}
	switch {
	case w.held.Pool != nil: // one of several holders
	case w.held.ExpiresAt.IsZero() && w.held.Owner != "":
		s += ", the lock never expires"
	case !w.held.ExpiresAt.IsZero():
		s += ", lock expires at " + term.Stamp(w.held.ExpiresAt.Time)
	}
	for _, c := range w.checking() {
		s += ", " + c
	}
	return s + "."
}

// bar runs towards the deadline.
func bar(elapsed, total time.Duration) string {
	return term.Bar(int(elapsed.Milliseconds()), int(total.Milliseconds()))
}
