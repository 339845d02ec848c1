package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// waiting tells people about a wait, on stderr. A terminal gets one line that
// lives: how far the deadline is, who holds, which place, when it expires. A
// pipe gets a plain line at the start and then one a minute, so that whoever
// watches for silence sees life.
type waiting struct {
	a    *App
	wait time.Duration
	live bool

	mu      sync.Mutex
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

func (a *App) waiting(wait time.Duration) *waiting {
	return &waiting{a: a, wait: wait, live: isTerminal(a.Stderr) && a.Env("TERM") != "dumb"}
}

// update takes the news of the wait. The first begins it.
func (w *waiting) update(h lease.HeldError) {
	w.a.waits(w.wait)
	if w.a.Quiet {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = h
	if w.stop != nil {
		return
	}
	w.started = time.Now().Add(-h.Waited)
	w.stop = make(chan struct{})
	if w.live {
		h.Waited = 0
		w.a.note("%s.\nWaiting for lock... (Ctrl+C to cancel)", w.a.lockedText(&h))
	} else {
		w.a.note("%s", w.plain())
	}
	w.done.Add(1)
	go w.keep()
}

func (w *waiting) keep() {
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
			line := w.plain()
			w.mu.Unlock()
			w.a.note("%s", line)
		}
	}
}

// end clears the live line and says how it ended. Only the first call counts.
func (w *waiting) end(granted, tookOver bool) {
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
		erase(w.a.Stderr)
	}
	switch {
	case granted && tookOver:
		w.a.note("Lock taken over after %s.", rough(time.Since(w.started)))
	case granted && w.live:
		w.a.note("Lock released!")
	case granted:
		w.a.note("Lock released after %s.", rough(time.Since(w.started)))
	}
}

func (w *waiting) draw() {
	w.mu.Lock()
	text := bar(time.Since(w.started), w.wait) + " " + w.facts()
	w.mu.Unlock()
	redraw(w.a.Stderr, text)
}

// facts are the words of the live line, what matters most first: the end may
// be cut off.
func (w *waiting) facts() string {
	h := &w.held
	f := []string{rough(time.Since(w.started)) + " elapsed of " + exact(w.wait)}
	if h.Position > 0 {
		f = append(f, fmt.Sprintf("place %d", h.Position))
	}
	if h.Owner != "" {
		f = append(f, "held by "+short(h.Owner, 40))
	}
	switch {
	case h.Until.IsZero() && h.Owner != "":
		f = append(f, noEnd)
	case !h.Until.IsZero():
		f = append(f, "expires in "+rough(h.Until.Sub(w.a.Now())))
	}
	return strings.Join(append(f, w.checking()...), ", ")
}

// checking says how often a waiter asks where nothing wakes it.
func (w *waiting) checking() []string {
	if w.a.cfg == nil || !w.a.cfg.far() {
		return nil
	}
	return []string{"checking every " + exact(w.a.cfg.PollInterval())}
}

// plain is the same for a pipe.
func (w *waiting) plain() string {
	s := w.a.lockedText(&lease.HeldError{Key: w.held.Key, Asked: w.held.Asked, Owner: w.held.Owner, Ahead: w.held.Ahead, Position: w.held.Position})
	if waited := time.Since(w.started); waited < time.Second {
		s += ". Waiting up to " + exact(w.wait)
	} else {
		s += ". Waiting for " + rough(waited)
	}
	if w.held.Position > 0 {
		s += fmt.Sprintf(", place %d in the queue", w.held.Position)
	}
	switch {
	case w.held.Until.IsZero() && w.held.Owner != "":
		s += ", the lock has no end"
	case !w.held.Until.IsZero():
		s += ", lock expires at " + stamp(w.held.Until)
	}
	for _, c := range w.checking() {
		s += ", " + c
	}
	return s + "."
}

// bar runs towards the deadline.
func bar(elapsed, total time.Duration) string {
	return part(int(elapsed.Milliseconds()), int(total.Milliseconds()))
}
