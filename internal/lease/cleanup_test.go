package lease_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

func (w *world) cleanup(r lease.CleanupRequest) lease.CleanupResult {
	w.Helper()
	r.By = "janitor"
	out, err := lease.Cleanup(w.ctx, w.st, r)
	w.must(err)
	return out
}

func TestCleanupFreesOnlyWhatIsOver(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, TTL: time.Minute})
		w.grant(lease.AcquireRequest{Owner: "bob", Keys: []string{"c"}, TTL: 10 * time.Minute})
		w.grant(lease.AcquireRequest{Owner: "carol", Keys: []string{"d"}, TTL: time.Minute})
		time.Sleep(50 * time.Second)
		w.must(w.renew("carol", "d"))
		time.Sleep(50 * time.Second)

		w.unchanged("a dry run", func() {
			if out := w.cleanup(lease.CleanupRequest{DryRun: true}); len(out.Freed) != 2 || out.Freed[0].State != lease.Expired {
				t.Errorf("%+v", out)
			}
		})
		out := w.cleanup(lease.CleanupRequest{})
		if len(out.Freed) != 2 || out.Freed[0].Key != "a" || out.Freed[1].Key != "b" || out.Freed[0].Owner != "alice" {
			t.Errorf("%+v", out)
		}
		equal(w, "left", w.kinds("lock/"), []string{"lock/c", "lock/d"})
		h, err := lease.History(w.ctx, w.st, lease.HistoryRequest{Limit: 1})
		w.must(err)
		if e := h.Events[0]; e.Event != "expired" || e.Owner != "alice" || e.By != "janitor" || len(e.Keys) != 2 {
			t.Errorf("%+v", e)
		}
		w.unchanged("cleaning what is clean", func() { w.cleanup(lease.CleanupRequest{}) })
	})
}

func TestCleanupOfTheSilent(t *testing.T) {
	near(t, func(w *world) {
		w.acquire("alice", "a")
		time.Sleep(10 * time.Minute)
		w.acquire("bob", "b")
		time.Sleep(5 * time.Minute)
		w.unchanged("without Silent", func() { w.cleanup(lease.CleanupRequest{}) })
		w.unchanged("a longer silence", func() { w.cleanup(lease.CleanupRequest{Silent: 15 * time.Minute}) })
		out := w.cleanup(lease.CleanupRequest{Silent: 14 * time.Minute})
		if len(out.Freed) != 1 || out.Freed[0].Key != "a" || out.Freed[0].State != lease.Held {
			t.Errorf("%+v", out)
		}
		h, err := lease.History(w.ctx, w.st, lease.HistoryRequest{Limit: 1})
		w.must(err)
		if e := h.Events[0]; e.Event != "broken" || !strings.Contains(e.Why, "silent for 15m") {
			t.Errorf("%+v", e)
		}
	})
}

func TestCleanupOfTheDead(t *testing.T) {
	w := newWorld(t)
	child := exec.Command("sleep", "60")
	w.must(child.Start())
	p, err := host.Find(child.Process.Pid)
	w.must(err)
	w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, Process: p})
	w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"b"}, Process: host.Self()})
	if out := w.cleanup(lease.CleanupRequest{}); len(out.Freed) > 0 {
		t.Errorf("%+v", out)
	}
	w.must(child.Process.Kill())
	_ = child.Wait()
	if out := w.cleanup(lease.CleanupRequest{}); len(out.Freed) != 1 || out.Freed[0].State != lease.Dead || out.Freed[0].Key != "a" {
		t.Errorf("%+v", out)
	}
}

// hook is a store that calls before each commit.
type hook struct {
	*memstore.Store
	before func()
}

func (h *hook) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if before := h.before; before != nil {
		h.before = nil
		before()
	}
	return h.Store.Commit(ctx, b)
}

func TestWhatIsRenewedMeanwhileStays(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute})
		w.grant(lease.AcquireRequest{Owner: "bob", Keys: []string{"b"}, TTL: time.Minute})
		time.Sleep(2 * time.Minute)
		st := store.New(&hook{w.mem, func() { w.must(w.renew("alice", "a")) }})
		out, err := lease.Cleanup(w.ctx, st, lease.CleanupRequest{By: "janitor"})
		w.must(err)
		if len(out.Freed) != 1 || out.Freed[0].Key != "b" || !w.locked("a") {
			t.Errorf("%+v", out)
		}
		// A take-over has the same duty.
		time.Sleep(2 * time.Minute)
		st = store.New(&hook{w.mem, func() { w.must(w.renew("alice", "a")) }})
		_, err = lease.Acquire(w.ctx, st, lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}})
		as[*lease.HeldError](w, err)
	})
}

func TestCleanupOfTickets(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, TTL: time.Hour})
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "bob", Keys: []string{"a", "b"}, Wait: time.Second})
		as[*lease.HeldError](w, err)
		time.Sleep(5 * time.Minute)
		w.unchanged("a place that is kept", func() { w.cleanup(lease.CleanupRequest{}) })
		carol := w.wait("carol", "b")
		time.Sleep(20 * time.Second)
		equal(w, "waiters", w.waiters("b"), []string{"bob", "carol"})
		time.Sleep(20 * time.Second)
		if out := w.cleanup(lease.CleanupRequest{}); out.Tickets != 0 {
			t.Errorf("%+v, but carol found him lapsed before", out)
		}
		equal(w, "waiters", w.waiters("b"), []string{"carol"})
		equal(w, "queues", w.kinds("queue/"), []string{"queue/b"})
		w.stop(carol)
	})
	bubble(t, func(w *world) { // nobody else waits
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, TTL: time.Hour})
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "bob", Keys: []string{"a", "b"}, Wait: time.Second})
		as[*lease.HeldError](w, err)
		time.Sleep(6 * time.Minute)
		if out := w.cleanup(lease.CleanupRequest{}); out.Tickets != 1 || len(w.kinds("queue/")) > 0 || len(w.kinds("lease/bob/")) > 0 {
			t.Errorf("%+v", out)
		}
	})
	bubble(t, func(w *world) { // the store has dropped the ticket's record
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour})
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, Wait: time.Second})
		as[*lease.HeldError](w, err)
		w.overwrite(w.kinds("lease/bob/")[0], "")
		if out := w.cleanup(lease.CleanupRequest{}); out.Tickets != 0 {
			t.Errorf("%+v", out)
		}
		time.Sleep(5*time.Minute + 1)
		if out := w.cleanup(lease.CleanupRequest{}); out.Tickets != 1 || len(w.kinds("queue/")) > 0 {
			t.Errorf("%+v", out)
		}
	})
}

func TestCleanupOfAnySize(t *testing.T) {
	long.NotShort(t)
	bubble(t, func(w *world) {
		for i := range 30 {
			var keys []string
			for k := range 100 {
				keys = append(keys, fmt.Sprintf("k%02d-%03d", i, k))
			}
			w.older("alice", fmt.Sprint("l", i), time.Minute, keys...)
		}
		for i := range 120 {
			w.grant(lease.AcquireRequest{Owner: "bob", Keys: []string{fmt.Sprintf("b%03d", i)}, TTL: time.Minute})
		}
		time.Sleep(time.Hour)
		if out := w.cleanup(lease.CleanupRequest{DryRun: true}); len(out.Freed) != 3120 {
			t.Errorf("a dry run would free %d", len(out.Freed))
		}
		if out := w.cleanup(lease.CleanupRequest{}); len(out.Freed) != 3120 || len(w.kinds("lock/")) != 0 || len(w.kinds("lease/")) != 0 {
			t.Errorf("freed %d", len(out.Freed))
		}
	})
}

// Cleaning up costs so much for each lock, waiter and receipt, however many there
// are.
func TestCleanupIsLinear(t *testing.T) {
	for _, n := range []int{30, 600} {
		near(t, func(w *world) {
			for i := range n {
				id := fmt.Sprintf("%d-%d", n, i)
				w.grant(lease.AcquireRequest{Owner: "o" + id, Keys: []string{"k" + id}, TTL: time.Minute})
				w.grant(lease.AcquireRequest{Owner: "r", Keys: []string{"x"}, ID: id})
				w.release("r", "x")
			}
			w.queue(n, "w", func(i int) []string { return []string{fmt.Sprintf("k%d-%d", n, i%5)} })
			time.Sleep(48 * time.Hour)
			counted := drivertest.NewCounted(w.mem)
			w = w.through(counted)
			steps, last := 0, 0
			out := w.cleanup(lease.CleanupRequest{Progress: func(done, all int) {
				if steps++; done <= last || done > all {
					t.Errorf("step %d: %d after %d of %d", steps, done, last, all)
				}
				last = done
			}})
			if len(out.Freed) != n || out.Tickets != n || out.Pruned != n {
				t.Fatalf("freed %d, %d waiters, pruned %d", len(out.Freed), out.Tickets, out.Pruned)
			}
			if c := counted.Take(); c.Records > int64(20*n) || c.Commits+c.Refused > int64(n/5+10) || steps < n/20 {
				t.Errorf("%d of each in %d steps: %+v", n, steps, c)
			}
			equal(w, "left", append(w.kinds("lock/"), append(w.kinds("lease/"), w.kinds("queue/")...)...), nil)
		})
	}
}
