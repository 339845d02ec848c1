package runner

import (
	"time"

	"github.com/tasklock/tasklock/internal/host"
)

// action is what must be done to the group now.
type action int

const (
	doNothing action = iota
	doTerm
	doKill
)

// watch decides when a group of processes must end. It knows two deadlines:
// how long the lease may be relied on, which moves with every heartbeat,
// and the order to stop, which only comes nearer.
type watch struct {
	trusted deadline
	stopped deadline
	termed  bool
	overdue bool // the lease could not be relied on any more, and no order came
}

// deadline: TERM at at+left, KILL at at+left+grace.
type deadline struct {
	set         bool
	at          host.Moment
	left, grace time.Duration
}

func (d deadline) term(t host.Moment) time.Duration { return d.left - t.Since(d.at) }
func (d deadline) kill(t host.Moment) time.Duration { return d.term(t) + d.grace }

// trust moves the first deadline.
func (w *watch) trust(at host.Moment, left, grace time.Duration) {
	w.trusted = deadline{set: true, at: at, left: left, grace: grace}
}

// stop orders the end: TERM now, KILL after grace at the latest.
func (w *watch) stop(at host.Moment, grace time.Duration) {
	d := deadline{set: true, at: at, grace: grace}
	if !w.stopped.set || d.kill(at) < w.stopped.kill(at) {
		w.stopped = d
	}
}

// due says what to do at t, and when to ask again at the latest.
func (w *watch) due(t host.Moment) (do action, next time.Duration) {
	if w.trusted.set && w.trusted.term(t) <= 0 {
		// Final: a wrapper that wakes up now cannot take the TERM back.
		w.overdue = w.overdue || !w.stopped.set
		if !w.stopped.set || w.trusted.kill(t) < w.stopped.kill(t) {
			w.stopped = w.trusted
		}
	}
	next = lookAgain
	if w.trusted.set {
		next = min(next, w.trusted.term(t))
	}
	if !w.stopped.set {
		return doNothing, next
	}
	left := w.stopped.kill(t)
	switch {
	case left <= 0:
		return doKill, killAgain
	case !w.termed:
		w.termed = true
		do = doTerm
	}
	if next <= 0 {
		next = lookAgain
	}
	return do, min(next, left)
}

const (
	lookAgain = time.Second           // timers stand still while the machine sleeps
	killAgain = 20 * time.Millisecond // until it is done
)
