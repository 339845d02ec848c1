package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

func TestFirstComeFirstServed(t *testing.T) {
	for name, o := range map[string]drivertest.FlakyOptions{
		"woken":             {},
		"woken early":       {EarlyWait: 0.5},
		"never woken":       {LostWait: 1},
		"a bad network":     {Before: 0.05, After: 0.05, Twice: 0.1, Read: 0.05},
		"a very late reply": {Delay: 0.1, MaxDelay: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				const n = 50
				w.acquire("first", "a")
				w.st = store.New(drivertest.NewFlaky(w.mem, o))
				var calls []*call
				for i := range n {
					calls = append(calls, w.wait(fmt.Sprintf("w%02d", i), "a"))
					for len(w.waiters("a")) <= i { // a commit was repeated
						time.Sleep(time.Second)
					}
				}
				token := int64(0)
				holder := "first"
				for i, c := range calls {
					w.waiting(calls[i:]...)
					w.releaseFor(holder, "a")
					<-c.done
					w.must(c.err)
					holder = c.grant.Owner
					if c.grant.Token <= token {
						t.Fatalf("token %d after %d", c.grant.Token, token)
					}
					token = c.grant.Token
				}
				w.releaseFor(holder, "a")
				if left := append(w.kinds("queue/"), w.kinds("lease/")...); len(left) > 0 {
					t.Error("left behind:", left)
				}
			})
		})
	}
}

// releaseFor releases, again and again over a bad network.
func (w *world) releaseFor(owner, key string) {
	w.Helper()
	for {
		_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: owner, Keys: []string{key}})
		if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrUnreachable) {
			w.must(err)
			return
		}
	}
}

func TestNoWaitDoesNotOvertake(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute})
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, Wait: time.Second})
		as[*lease.HeldError](w, err)
		if h := w.refused("carol", "a"); h.Owner != "alice" || h.Ahead != 1 || h.Position != 0 {
			t.Errorf("%+v", h)
		}
		w.release("alice", "a")
		h := w.refused("carol", "a")
		if h.Owner != "" || h.Ahead != 1 {
			t.Errorf("%+v", h)
		}
		// Bob's ticket was left a second before: he comes back and has it.
		w.acquire("bob", "a")
	})
}

func TestWhatAWaiterIsTold(t *testing.T) {
	near(t, func(w *world) {
		g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour, Reason: "r"})
		bob := w.wait("bob", "a")
		var told []lease.HeldError
		carol := w.start(lease.AcquireRequest{Owner: "carol", Keys: []string{"a"}, Wait: time.Hour, Waiting: func(h lease.HeldError) { told = append(told, h) }})
		time.Sleep(time.Minute)
		w.release("alice", "a")
		w.served(bob)
		w.settle()
		first, last := told[0], told[len(told)-1]
		if first.Owner != "alice" || first.Token != g.Token || first.Position != 2 || first.Ahead != 1 || first.Reason != "r" || first.ExpiresAt != g.ExpiresAt {
			t.Errorf("first %+v", first)
		}
		if last.Owner != "bob" || last.Position != 1 || last.Ahead != 0 || last.Waited < time.Minute {
			t.Errorf("last %+v", last)
		}
		w.stop(carol)
	})
}

func TestTimedOutWaitLeavesATicket(t *testing.T) {
	near(t, func(w *world) {
		w.acquire("alice", "a")
		r := lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, Wait: 20 * time.Second}
		start := time.Now()
		_, err := lease.Acquire(w.ctx, w.st, r)
		if h := as[*lease.HeldError](w, err); time.Since(start) != 20*time.Second || h.Position != 1 || h.Waited != 20*time.Second {
			t.Errorf("after %s: %+v", time.Since(start), h)
		}
		carol := w.wait("carol", "a")
		// The repeated call goes on from its place.
		bob := w.start(r)
		equal(w, "waiters", w.waiters("a"), []string{"bob", "carol"})
		w.release("alice", "a")
		w.served(bob)
		w.waiting(carol)
		w.release("bob", "a")
		w.served(carol)
	})
}

func TestLapsedTicketIsPassedOverButKeepsItsPlace(t *testing.T) {
	for _, c := range []struct {
		away time.Duration
		want []string
	}{
		{10 * time.Second, []string{"bob", "carol", "dave"}}, // not even lapsed
		{2 * time.Minute, []string{"bob", "carol", "dave"}},
		{20 * time.Minute, []string{"carol", "dave", "bob"}},
	} {
		t.Run(c.away.String(), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour})
				r := lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, Wait: time.Second}
				_, err := lease.Acquire(w.ctx, w.st, r)
				as[*lease.HeldError](w, err)
				carol := w.wait("carol", "a")
				time.Sleep(c.away / 2)
				dave := w.wait("dave", "a")
				time.Sleep(c.away / 2)
				erin := w.wait("erin", "a") // whoever writes the queue drops what is old
				time.Sleep(time.Second)
				w.stop(erin)
				r.Wait = 24 * time.Hour
				bob := w.start(r)
				equal(w, "waiters", w.waiters("a"), c.want)
				w.stop(bob, carol, dave)
			})
		})
	}
	t.Run("passed over", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour})
			_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, Wait: time.Second})
			as[*lease.HeldError](w, err)
			carol := w.wait("carol", "a")
			w.release("alice", "a")
			w.waiting(carol) // bob may come back at any moment
			time.Sleep(31 * time.Second)
			w.served(carol)
			// He did not come back in time, but still is the next.
			dave := w.wait("dave", "a")
			bob := w.wait("bob", "a")
			w.release("carol", "a")
			w.served(bob)
			w.stop(dave)
		})
	})
}

// Two calls of one owner that both live are two waiters: none takes the
// other's ticket, and one that leaves does not drag the other along.
func TestTwoWaitersOfOneOwner(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a")
		one, two := w.wait("bob", "a"), w.wait("bob", "a")
		equal(w, "waiters", w.waiters("a"), []string{"bob", "bob"})
		w.stop(one)
		equal(w, "waiters", w.waiters("a"), []string{"bob"})
		w.waiting(two)
		three := w.wait("bob", "a")
		w.release("alice", "a")
		g := w.served(two)
		if again := w.served(three); again.Token != g.Token || !again.Keys[0].Reentrant {
			t.Errorf("%+v after %+v", again, g)
		}
	})
}

// A caller who leaves at the very moment another call of its owner is served
// must not release what that one got.
func TestLeavingTakesNothingFromOthers(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a")
		one := w.wait("bob", "a")
		two := w.wait("bob", "a")
		w.release("alice", "a")
		two.cancel(nil)
		w.served(one)
		<-two.done
		if w.holder("a") != "bob" {
			t.Error("someone else's leaving released the lock")
		}
	})
}

func TestContextLeavesTheQueue(t *testing.T) {
	near(t, func(w *world) {
		w.acquire("alice", "a", "b")
		why := errors.New("changed my mind")
		bob, carol := w.wait("bob", "a", "b"), w.wait("carol", "a")
		bob.cancel(why)
		<-bob.done
		w.want(bob.err, why)
		equal(w, "waiters of a", w.waiters("a"), []string{"carol"})
		equal(w, "waiters of b", w.waiters("b"), nil)
		if n := len(w.kinds("lease/bob/")); n > 0 {
			t.Error("the ticket stayed")
		}
		w.release("alice", "a", "b")
		w.served(carol)
	})
	near(t, func(w *world) { // a deadline is an end like any other
		w.acquire("alice", "a")
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		_, err := lease.Acquire(ctx, w.st, lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, Wait: time.Hour})
		w.want(err, context.DeadlineExceeded)
		equal(w, "waiters", w.waiters("a"), nil)
	})
}

func TestBatchJoinsAllItsQueues(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a")
		w.acquire("bob", "mine")
		bob := w.wait("bob", "a", "free", "mine")
		equal(w, "queues", w.kinds("queue/"), []string{"queue/a", "queue/free"})
		// Its free key is not given to who comes later, or it would starve.
		w.refused("carol", "free")
		carol := w.wait("carol", "free")
		w.release("alice", "a")
		w.served(bob)
		w.release("bob", "free")
		w.served(carol)
	})
}

func TestOvertaking(t *testing.T) {
	near(t, func(w *world) {
		w.acquire("alice", "a")
		carol := w.wait("carol", "a", "b")
		// Carol cannot be served before alice gives a back: who holds a passes her.
		w.acquire("alice", "b")
		// Whoever holds nothing of hers does not.
		w.acquire("bob", "x")
		w.release("alice", "b")
		w.refused("bob", "b")
		w.acquire("alice/child", "b")
		w.release("alice/child", "b")
		w.release("alice", "a")
		w.served(carol)
	})
	near(t, func(w *world) { // the same if b is busy: alice waits, without a deadlock
		w.acquire("alice", "a")
		w.acquire("bob", "b")
		carol := w.wait("carol", "a", "b")
		alice := w.wait("alice", "b")
		w.waiting(carol, alice)
		w.release("bob", "b")
		w.served(alice)
		w.waiting(carol)
		w.release("alice", "a", "b")
		w.served(carol)
	})
}

func TestNoDeadlockByPosition(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("x", "a")
		w.acquire("y", "b")
		one := w.wait("one", "a", "b")
		two := w.wait("two", "b", "a")
		single := w.wait("single", "b")
		w.release("y", "b")
		w.waiting(one, two, single)
		w.release("x", "a")
		w.served(one)
		w.release("one", "a", "b")
		w.served(two)
		w.release("two", "a", "b")
		w.served(single)
	})
}

func TestExpiryServesTheHead(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: 100 * time.Second})
		start := time.Now()
		bob := w.wait("bob", "a")
		carol := w.wait("carol", "a")
		time.Sleep(90 * time.Second)
		w.must(w.renew("alice", "a"))
		<-bob.done
		w.must(bob.err)
		if d := time.Since(start) - 190*time.Second; d < 0 || d > 2*time.Second {
			t.Errorf("served %s after the end of the lease", d)
		}
		w.waiting(carol)
		w.stop(carol)
	})
}

// Who holds it already does not queue for it, whatever else it waits for.
func TestQueueWhereOnesOwnLeaseIsOver(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute, MaxHold: time.Minute})
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, Wait: time.Minute - time.Second})
		as[*lease.HeldError](w, err)
		time.Sleep(2 * time.Second) // max hold is over, bob's ticket is not
		alice := w.wait("alice", "a")
		equal(w, "waiters", w.waiters("a"), []string{"bob", "alice"})
		w.acquire("bob", "a")
		w.release("bob", "a")
		w.served(alice)
	})
}
