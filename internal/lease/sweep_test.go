package lease_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

func (w *world) sweep(s *lease.Sweeper) int {
	w.Helper()
	n, err := s.Sweep(w.ctx)
	w.must(err)
	return n
}

// A lease that expires is an event once for each last heartbeat, and nothing else
// changes: its holder can still renew it.
func TestSweep(t *testing.T) {
	bubble(t, func(w *world) {
		s := lease.NewSweeper(w.st)
		g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute})
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"never"}, TTL: lease.Endless})
		waiter := w.wait("bob", "never")
		equal(w, "too early", w.sweep(s), 0)
		time.Sleep(2 * time.Minute)
		equal(w, "expired", w.sweep(s), 1)
		equal(w, "again", w.sweep(s), 0)
		equal(w, "by another sweeper", w.sweep(lease.NewSweeper(w.st)), 0)
		h, err := lease.History(w.ctx, w.st, lease.HistoryRequest{Key: "a"})
		w.must(err)
		e := h.Events[len(h.Events)-1]
		if e.Event != "expired" || !e.Open || e.Owner != "alice" || e.Lease != g.LeaseID || e.Token != g.Token || e.Keys[0] != "a" {
			t.Errorf("%+v", e)
		}
		w.must(w.renew("alice", "a"))
		equal(w, "renewed", w.sweep(s), 0)
		time.Sleep(2 * time.Minute)
		equal(w, "expired again", w.sweep(s), 1)
		w.acquire("carol", "a")
		equal(w, "taken over", w.sweep(s), 0)
		equal(w, "notes", w.kinds("expired/"), nil)
		w.stop(waiter)
	})
}

// The event of a sweep does not end a lease: a later loss has its own reason.
func TestSweepIsNoEnd(t *testing.T) {
	near(t, func(w *world) {
		ctx, l := w.ctx, (*lease.Lease)(nil)
		l, err := lease.Hold(ctx, w.st, lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute})
		w.must(err)
		_, err = w.st.Update(ctx, driver.Query{}, func(tx *store.Tx) error {
			return lease.Log(tx, lease.Event{Event: "expired", Open: true, Keys: []string{"a"}, Owner: l.Owner(), Lease: l.Grant().LeaseID, Token: l.Token()})
		})
		w.must(err)
		_, err = lease.Break(ctx, w.st, lease.BreakRequest{Keys: []string{"a"}, By: "zoe", Reason: "test"})
		w.must(err)
		<-l.Context().Done()
		lost := as[*lease.LostError](w, l.Err())
		if !strings.Contains(lost.Why, "broken by zoe") {
			t.Errorf("lost because %q", lost.Why)
		}
		_ = l.Release(ctx)
	})
}

// Sweepers that race write one event for each lease.
func TestSweepersRace(t *testing.T) {
	bubble(t, func(w *world) {
		const locks, sweepers = 70, 5
		for i := range locks {
			w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{fmt.Sprint("key", i)}, TTL: time.Minute})
		}
		time.Sleep(2 * time.Minute)
		var all sync.WaitGroup
		var mu sync.Mutex
		sum := 0
		for range sweepers {
			st := store.New(drivertest.NewFar(w.T, w.mem, nil))
			all.Go(func() {
				n, err := lease.NewSweeper(st).Sweep(w.ctx)
				mu.Lock()
				defer mu.Unlock()
				if sum += n; err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		equal(w, "events that sweepers wrote", sum, locks)
		written := slices.DeleteFunc(w.history(), func(line string) bool { return !strings.HasPrefix(line, "expired ") })
		equal(w, "events", len(written), locks)
	})
}

// A round of a sweeper reads what was written since the last one, not all leases.
func TestSweepReadsLittle(t *testing.T) {
	near(t, func(w *world) {
		for i := range 500 {
			w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{fmt.Sprint("key", i)}, TTL: time.Hour})
		}
		d := drivertest.NewCounted(w.mem)
		s := lease.NewSweeper(store.New(d))
		w.sweep(s)
		d.Take()
		w.acquire("alice", "one more")
		w.sweep(s)
		if c := d.Take(); c.Records > 10 {
			t.Errorf("%d records were read after one was written", c.Records)
		}
	})
}
