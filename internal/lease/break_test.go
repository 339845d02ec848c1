package lease_test

import (
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

func (w *world) breakKeys(r lease.BreakRequest) lease.ReleaseResult {
	w.Helper()
	out, err := lease.Break(w.ctx, w.st, r)
	w.must(err)
	return out
}

func TestBreakEndsTheWholeLease(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.acquire("alice", "a", "b")
		other := w.acquire("alice", "c")
		out := w.breakKeys(lease.BreakRequest{By: "root", Keys: []string{"a", "free"}, Reason: "it hangs"})
		equal(w, "result", out, lease.ReleaseResult{
			Released: []lease.Released{{Key: "a", Owner: "alice", Token: g.Token}, {Key: "b", Owner: "alice", Token: g.Token}},
			Free:     []string{"free"},
		})
		if w.locked("a") || w.locked("b") || w.check("c").Lock.Token != other.Token {
			t.Error("not exactly the lease of a has ended")
		}
		h, err := lease.History(w.ctx, w.st, lease.HistoryRequest{Key: "b", Limit: 1})
		w.must(err)
		e := h.Events[0]
		if e.Event != "broken" || e.Owner != "alice" || e.By != "root" || e.Reason != "it hangs" || e.Token != g.Token || e.Lease != g.LeaseID {
			t.Errorf("audit says %+v", e)
		}
		w.unchanged("the holder of a dead token", func() {
			w.want(w.renew("alice", "a"), lease.ErrLost)
			_, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "alice", Lease: g.LeaseID})
			w.want(err, lease.ErrLost)
			_, err = lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "a", Token: g.Token})
			w.want(err, lease.ErrLost)
			_, err = w.st.Update(w.ctx, driver.Query{}, func(tx *store.Tx) error {
				if err := lease.Fence(tx, "a", g.Token); err != nil {
					return err
				}
				return tx.Put("test/x", struct{}{})
			})
			w.want(err, lease.ErrLost)
		})
	})
}

func TestBreakOfTwoKeysOfOneLease(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a", "b", "c")
		w.acquire("bob", "d")
		out := w.breakKeys(lease.BreakRequest{By: "root", Keys: []string{"b", "d", "a"}})
		if len(out.Released) != 4 || len(out.Free) != 0 {
			t.Errorf("%+v", out)
		}
		equal(w, "history", w.history(), []string{"acquired a+b+c alice", "acquired d bob", "broken a+b+c alice", "broken d bob"})
	})
}

func TestBreakWithToken(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.acquire("alice", "a")
		w.unchanged("a break with an old token", func() {
			_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"a"}, Token: g.Token + 1})
			w.want(err, lease.ErrLost)
		})
		w.breakKeys(lease.BreakRequest{By: "root", Keys: []string{"a"}, Token: g.Token})
		if w.locked("a") {
			t.Error("not broken")
		}
	})
}

func TestBreakRepeated(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a")
		r := lease.BreakRequest{By: "root", Keys: []string{"a"}, ID: "break-1"}
		first := w.breakKeys(r)
		w.acquire("bob", "a")
		w.unchanged("the same break again", func() {
			equal(w, "result", w.breakKeys(r), first)
		})
		w.unchanged("its id for something else", func() {
			_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"b"}, ID: "break-1"})
			as[*lease.InvalidError](w, err)
			_, err = lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "root", Keys: []string{"z"}, ID: "break-1"})
			as[*lease.InvalidError](w, err)
		})
		// Nothing to break is an effect too: whoever comes later is not meant.
		r = lease.BreakRequest{By: "root", Keys: []string{"free"}, ID: "break-2"}
		w.breakKeys(r)
		w.acquire("carol", "free")
		w.breakKeys(r)
		if w.holder("free") != "carol" || w.holder("a") != "bob" {
			t.Error("a repeated break hit someone else")
		}
	})
}

func TestBreakAfterAnAcquisitionWithTheSameID(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "root", Keys: []string{"a"}, ID: "one"})
		w.release("root", "a")
		w.acquire("alice", "a")
		_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"a"}, ID: "one"})
		as[*lease.InvalidError](w, err) // and not "done"
	})
}

func TestBreakWakesWaiters(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a", "b")
		bob := w.wait("bob", "b")
		start := time.Now()
		w.breakKeys(lease.BreakRequest{By: "root", Keys: []string{"a"}})
		w.served(bob)
		if d := time.Since(start); d > time.Second {
			t.Errorf("woken after %s", d)
		}
	})
}
