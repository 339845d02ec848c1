package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// cursor holds the key of a cursor.
func (w *world) cursor(owner, name string) lease.DeliverRequest {
	w.Helper()
	g := w.acquire(owner, lease.CursorKey(name))
	return lease.DeliverRequest{Cursor: name, Since: lease.FromNow, Owner: owner, Lease: g.LeaseID, Token: g.Token}
}

// open makes a cursor that begins now.
func (w *world) open(r lease.DeliverRequest) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	err := lease.Deliver(ctx, w.st, r, func(int64) { cancel() }, nil)
	w.want(err, context.Canceled)
}

// deliver returns the next n events of a cursor, each as "event key". The handler of
// the last one fails with err.
func (w *world) deliver(r lease.DeliverRequest, n int, err error) (got []string, ended error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, time.Hour) // of the bubble: else one that never comes would hang the test
	defer cancel()
	ended = lease.Deliver(ctx, w.st, r, nil, func(g lease.Group) error {
		if g.Gap {
			got = append(got, "gap")
		}
		for _, e := range g.Events {
			got = append(got, e.Event+" "+e.Keys[0])
		}
		if len(got) < n {
			return nil
		}
		return err
	})
	return got, ended
}

func TestDeliver(t *testing.T) {
	bubble(t, func(w *world) {
		crash := errors.New("crash")
		w.acquire("zoe", "before")
		bob := w.cursor("bob", "c")
		w.open(bob)
		w.acquire("alice", "a")
		w.release("alice", "a")
		w.acquire("bob/command", "own")

		got, err := w.deliver(bob, 1, crash)
		w.want(err, crash)
		equal(w, "the first", got, []string{"acquired a"})
		got, err = w.deliver(bob, 2, crash)
		w.want(err, crash)
		equal(w, "again, and the second", got, []string{"acquired a", "released a"})
		got, err = w.deliver(bob, 1, crash)
		w.want(err, crash)
		equal(w, "the second again: the first was handled", got, []string{"released a"})

		w.release("bob", lease.CursorKey("c"))
		_, err = w.deliver(bob, 1, crash)
		as[*lease.LostError](w, err)
		carol := w.cursor("carol", "c")
		_, err = w.deliver(bob, 1, crash)
		as[*lease.LostError](w, err)
		got, err = w.deliver(carol, 1, crash)
		w.want(err, crash)
		equal(w, "another holder", got, []string{"released a"})
	})
}

// A holder does not get what the commands of earlier holders did, crashed ones too:
// otherwise each new start of a watcher would have twice as much to do as the last one.
func TestEarlierHoldersCauseNoEvents(t *testing.T) {
	bubble(t, func(w *world) {
		crash := errors.New("crash")
		w.open(w.cursor("first", "c"))
		w.acquire("alice", "a")
		for _, owner := range []string{"first", "second", "third"} {
			if owner != "first" {
				r := w.cursor(owner, "c")
				got, err := w.deliver(r, 1, crash)
				w.want(err, crash)
				equal(w, owner+" gets", got, []string{"acquired a"})
			}
			w.acquire(owner+"/command", "of "+owner)
			w.release(owner, lease.CursorKey("c"))
		}
		w.acquire("alice", "b")
		got, err := w.deliver(w.cursor("last", "c"), 2, crash)
		w.want(err, crash)
		equal(w, "the last one gets", got, []string{"acquired a", "acquired b"})
	})
}

// Who lost the key while a handler ran does not move the cursor.
func TestCursorIsFenced(t *testing.T) {
	bubble(t, func(w *world) {
		bob := w.cursor("bob", "c")
		w.open(bob)
		g := w.acquire("alice", "a")
		err := lease.Deliver(w.ctx, w.st, bob, nil, func(lease.Group) error {
			_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{Keys: []string{lease.CursorKey("c")}, By: "zoe", Reason: "test"})
			return err
		})
		as[*lease.LostError](w, err)
		carol := w.cursor("carol", "c")
		crash := errors.New("crash")
		got, err := w.deliver(carol, 1, crash)
		w.want(err, crash)
		equal(w, "the same event", got, []string{fmt.Sprint("acquired ", g.Keys[0].Key)})
	})
}

func TestNewCursor(t *testing.T) {
	bubble(t, func(w *world) {
		crash := errors.New("crash")
		w.acquire("alice", "a")
		bob := w.cursor("bob", "c")
		bob.Since = w.now() + 1
		_, err := w.deliver(bob, 1, crash)
		as[*lease.AheadError](w, err)
		bob.Since = 0
		got, err := w.deliver(bob, 1, crash)
		w.want(err, crash)
		equal(w, "all of the past", got, []string{"acquired a"})
		w.overwrite("history/marks", fmt.Sprintf(`{"marks":[],"below":%d}`, w.now()))
		got, err = w.deliver(bob, 1, crash)
		w.want(err, crash)
		equal(w, "after tidying", got, []string{"gap"})
	})
}
