package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

func TestBatchIsDeduplicatedAndSorted(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.acquire("alice", "b", "a", "b", "e\u0301", "\u00e9")
		equal(w, "keys", g.Keys, []lease.KeyGrant{
			{Key: "a", Token: g.Token, Lease: g.LeaseID}, {Key: "b", Token: g.Token, Lease: g.LeaseID}, {Key: "\u00e9", Token: g.Token, Lease: g.LeaseID},
		})
		if n := len(w.kinds("lease/")); n != 1 {
			t.Errorf("%d leases for one acquisition", n)
		}
	})
}

func TestBatchIsAllOrNothing(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("bob", "b")
		w.unchanged("a refused batch", func() {
			if h := w.refused("alice", "a", "b", "c"); h.Key != "b" || h.Owner != "bob" {
				t.Errorf("%+v", h)
			}
		})
	})
}

func TestBatchNeverShowsHalf(t *testing.T) {
	bubble(t, func(w *world) {
		alice := w.acquire("alice", "b")
		bob := w.wait("bob", "a", "b", "c")
		if w.locked("a") || w.locked("c") {
			t.Error("a waiting batch holds something")
		}
		w.release("alice", "b")
		g := w.served(bob)
		for _, k := range g.Keys {
			if k.Token != g.Token || g.Token <= alice.Token {
				t.Errorf("%+v", g)
			}
		}
		w.release("bob", "a", "b", "c")
		if got := append(w.kinds("lock/"), append(w.kinds("lease/"), w.kinds("queue/")...)...); len(got) > 0 {
			t.Error("left behind:", got)
		}
	})
}

func TestBatchHasOneDeadline(t *testing.T) {
	near(t, func(w *world) {
		w.acquire("bob", "a")
		w.acquire("carol", "b")
		start := time.Now()
		c := w.start(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b", "c"}, Wait: time.Minute})
		time.Sleep(40 * time.Second)
		w.release("bob", "a")
		<-c.done
		h := as[*lease.HeldError](w, c.err)
		if d := time.Since(start); d != time.Minute || h.Key != "b" || h.Waited != time.Minute {
			t.Errorf("waited %s: %+v", d, h)
		}
	})
}

func TestLargestBatch(t *testing.T) {
	bubble(t, func(w *world) {
		var keys []string
		for i := range lease.MaxKeys {
			keys = append(keys, fmt.Sprintf("key-%03d", i))
		}
		g := w.acquire("alice", keys...)
		if len(g.Keys) != lease.MaxKeys {
			t.Error(len(g.Keys))
		}
		w.must(w.renew("alice", keys...))
		bob := w.wait("bob", keys...)
		w.release("alice", keys...)
		w.served(bob)
		as[*lease.InvalidError](w, w.try("alice", append(keys, "one-more")...))
	})
}
