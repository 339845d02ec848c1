package lease_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

func (w *world) force(owner string, keys ...string) lease.Grant {
	w.Helper()
	return w.grant(lease.AcquireRequest{Owner: owner, Keys: keys, Force: true, Reason: "in a hurry"})
}

func TestForceTakesFromHoldersAndPassesWaiters(t *testing.T) {
	bubble(t, func(w *world) {
		old := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}})
		held := w.hold(lease.AcquireRequest{Owner: "carol", Keys: []string{"c"}})
		defer func() { _ = held.Release(w.ctx) }()
		waits := w.wait("bob", "a")
		w.settle()

		g := w.force("dora", "a", "c", "free")
		if g.Token <= old.Token || len(g.Keys) != 3 {
			t.Errorf("granted %+v after token %d", g, old.Token)
		}
		equal(w, "taken over", g.TookOver, []lease.TakenOver{
			{Key: "a", Owner: "alice", Why: lease.Broken}, {Key: "c", Owner: held.Owner(), Why: lease.Broken},
		})
		<-held.Context().Done() // told at once
		w.want(held.Err(), lease.ErrLost)
		w.want(w.renew("alice", "a"), lease.ErrLost)
		equal(w, "the rest of the old lease", w.holder("b"), "")
		w.waiting(waits)
		equal(w, "the queue", w.waiters("a"), []string{"bob"})
		var broken int
		h, err := lease.History(w.ctx, w.st, lease.HistoryRequest{})
		w.must(err)
		for _, e := range h.Events {
			if e.Event == "broken" && e.By == "dora" && e.Reason == "in a hurry" {
				broken++
			}
		}
		equal(w, "broken leases in the history", broken, 2)
		w.release("dora", "a")
		w.served(waits)
	})
}

func TestForceIsAcquireWhereNobodyIsInTheWay(t *testing.T) {
	bubble(t, func(w *world) {
		first := w.force("alice", "a")
		again := w.force("alice", "a")
		if again.Token != first.Token || !again.Keys[0].Reentrant || len(again.TookOver) != 0 {
			t.Errorf("%+v after %+v", again, first)
		}
		w.grant(lease.AcquireRequest{Owner: "bob", Keys: []string{"b"}, TTL: time.Minute})
		time.Sleep(2 * time.Minute)
		g := w.force("alice", "b")
		equal(w, "an expired one is not broken", g.TookOver, []lease.TakenOver{{Key: "b", Owner: "bob", Why: lease.Expired}})
		w.unchanged("without a reason", func() {
			_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, Force: true})
			var bad *lease.InvalidError
			if !errors.As(err, &bad) {
				t.Errorf("%v", err)
			}
		})
	})
}

func TestForceOnPaths(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "path:src/web/**")
		w.acquire("bob", "path:src/api/a.go")
		w.acquire("carol", "path:docs")
		w.force("dora", "path:src")
		for key, owner := range map[string]string{"path:src/web/**": "dora", "path:src/api/a.go": "dora", "path:docs": "carol"} {
			if l := w.check(key).Lock; l == nil || l.Owner != owner {
				t.Errorf("%s: %+v, want %s", key, l, owner)
			}
		}
		w.refused("alice", "path:src/web/x.ts")
	})
}

// A request that was granted once has had its effect: repeated, it takes
// nothing back from whoever took it by force.
func TestForceRepeated(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a")
		r := lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, Force: true, Reason: "r", ID: "once"}
		first := w.grant(r)
		equal(w, "repeated", w.grant(r).Token, first.Token)
		w.force("carol", "a")
		w.unchanged("after it was taken away", func() {
			_, err := lease.Acquire(w.ctx, w.st, r)
			w.want(err, lease.ErrLost)
		})
	})
}

// All at once: each gets the key from the one before, and tokens tell the order.
func TestForceRace(t *testing.T) {
	w := newWorld(t)
	w.acquire("first", "a")
	tokens, mu := map[int64]bool{}, sync.Mutex{}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			g, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: fmt.Sprintf("o%d", i), Keys: []string{"a", "b"}, Force: true, Reason: "race"})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || tokens[g.Token] || len(g.TookOver) == 0 {
				t.Errorf("%+v: %v", g, err)
			}
			tokens[g.Token] = true
		})
	}
	all.Wait()
	if l := w.check("a").Lock; l == nil || w.holder("b") != l.Owner {
		t.Errorf("a is held by %+v, b by %s", l, w.holder("b"))
	}
}
