package worker

import (
	"context"
	"errors"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// idle returns when something may be ready, or with false when it is time to
// end. A section of someone else, with something to do in it, is waited for in
// any case: its holder may stop, or die.
func (w *worker) idle(none *task.NothingReadyError) (more bool, err error) {
	for failures := 0; ; {
		w.logWait(none)
		if w.waitsFor == nil && !w.idling {
			w.idling = true
			w.say(LogEntry{Event: "looking"}, "Looking for tasks... none pending")
			w.say(LogEntry{Event: "idle"}, "Going idle")
		}
		if w.waitsFor == nil && !w.o.Wait {
			return false, nil
		}
		if err := none.Wait(w.Soft, w.st, time.Minute, w.untouched()); err != nil {
			return false, nil
		}
		switch err := w.look(w.Soft); {
		case w.Soft.Err() != nil:
			return false, nil
		case err == nil:
			if w.waitsFor != nil && !w.stillLocked(w.waitsFor.Lock) {
				w.say(LogEntry{Event: "waiting", Section: w.waitsFor.Task.Section}, "Section lock released!")
			}
			w.waitsFor = nil
			return true, nil
		case errors.As(err, &none):
			failures = 0
		case store.MayPass(err):
			failures++
			w.trouble(LogEntry{}, err, failures)
		default:
			return false, err
		}
	}
}

// look finds out whether a task is ready; if not, the error is a
// [*task.NothingReadyError].
func (w *worker) look(ctx context.Context) error {
	_, err := task.Next(ctx, w.st, task.NextRequest{
		Section: w.o.Section, Label: w.o.Label, Acquire: lease.AcquireRequest{Owner: w.owner},
	})
	return err
}

// logWait tells about the section that is waited for.
func (w *worker) logWait(none *task.NothingReadyError) {
	if w.waitsFor != nil {
		w.logWaited(none)
	}
	if w.waitsFor != nil || len(none.Closed) == 0 {
		return
	}
	c := none.Closed[0]
	w.waitsFor, w.idling = &c, false
	e := LogEntry{Event: "waiting", Task: c.Task.ID, Title: c.Task.Title, Section: c.Task.Section}
	w.say(e, "Wants to start %q in %s section", c.Task.Title, c.Task.Section)
	w.say(e, "%s has no lock, but checking section...", c.Task.Title)
	if c.Workers > 1 {
		w.say(e, "Section %s is taken by %s and %d more", c.Task.Section, holderName(c.Lock), c.Workers-1)
	} else {
		w.say(e, "Section %s is locked by %s", c.Task.Section, holderName(c.Lock))
	}
	w.say(e, "Waiting for section lock...")
}

// logWaited looks what became of the section since the last look.
func (w *worker) logWaited(none *task.NothingReadyError) {
	old := w.waitsFor
	e := LogEntry{Event: "waiting", Section: old.Task.Section}
	now := task.Closed{Lock: old.Lock}
	now.Task.Section = old.Task.Section
	for _, c := range none.Closed {
		if c.Lock.Key == old.Lock.Key && c.Lock.Token == old.Lock.Token {
			now = c
		}
	}
	if now.Task.ID == "" && !w.stillLocked(old.Lock) {
		w.waitsFor = nil
		w.say(e, "Section lock released!")
		return
	}
	if old.Task.ID != "" && now.Task.ID != old.Task.ID {
		w.say(e, "Section still locked (%s got %s)", holderName(old.Lock), old.Task.Title)
		w.say(e, "Waiting...")
	}
	w.waitsFor = &now
}

func (w *worker) stillLocked(l lease.Info) bool {
	c, err := lease.Check(context.WithoutCancel(w.Soft), w.st, lease.CheckRequest{Key: l.Key})
	return err == nil && c.Locked && c.Lock.Token == l.Token
}

// untouched holds while nobody writes to the runner's record.
func (w *worker) untouched() driver.Guard {
	return driver.Guard{Key: runnerKind + w.o.Name, Rev: w.rev.Load()}
}
