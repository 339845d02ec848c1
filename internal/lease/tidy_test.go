package lease_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

// pairs makes so many pairs of acquire and release, each of two events.
func (w *world) pairs(n int) {
	w.Helper()
	for range n {
		w.acquire("alice", "a")
		w.release("alice", "a")
		time.Sleep(time.Millisecond) // by the clock of the bubble: events have their order by time too
	}
}

// logged commits so many events at once.
func (w *world) logged(n int) {
	w.Helper()
	_, err := w.st.Update(w.ctx, driver.Query{}, func(tx *store.Tx) error {
		for range n {
			if err := lease.Log(tx, lease.Event{Event: "released", Owner: "alice"}); err != nil {
				return err
			}
		}
		return nil
	})
	w.must(err)
}

func (w *world) bounded() {
	w.Helper()
	n := len(w.kinds("event/"))
	if n < 8_500 || n > 12_500 {
		w.Errorf("%d events", n)
	}
}

// An event is as old as the number of events since. Neither a jump of the
// revision nor the commits of others make it older.
func TestHistoryAfterAJump(t *testing.T) {
	long.NotShort(t)
	bubble(t, func(w *world) {
		w.pairs(500)
		oldest := w.kinds("event/")
		w.pairs(1000)
		_, err := w.st.Raise(w.ctx)
		w.must(err)
		foreign := driver.Batch{Writes: []driver.Write{{Key: "text/other", Value: []byte(`{}`)}}}
		for range 1000 { // a sample, of which the bounds allow for five standard deviations
			w.pairs(1)
			for range 4 { // of others, as on an etcd that is shared
				_, err := w.mem.Commit(w.ctx, foreign)
				w.must(err)
			}
		}
		left := w.kinds("event/")
		if len(left) != 5000 {
			t.Errorf("%d events, 3000 before the jump and 2000 since", len(left))
		}
		w.pairs(4500)
		w.bounded()
		left = w.kinds("event/")
		if slices.ContainsFunc(oldest, func(key string) bool { return slices.Contains(left, key) }) {
			t.Error("some of the oldest are still there")
		}
		_, err = w.st.Raise(w.ctx)
		w.must(err)
		w.pairs(300)
		w.bounded()
	})
}

// A history that was too long before its events were counted comes down by
// itself, also one of writers whose clocks differ: the oldest by time are then
// not the oldest.
func TestLongHistoryComesDown(t *testing.T) {
	long.NotShort(t)
	bubble(t, func(w *world) {
		for i := range 5 {
			var b driver.Batch
			for j := range 5000 {
				b.Writes = append(b.Writes, driver.Write{
					Key: fmt.Sprintf("event/%d0101T%06d.000000000Z-%06d", 1990+j%2*100, i, j), Value: []byte(`{"event":"acquired","keys":["x"]}`),
				})
			}
			_, err := w.mem.Commit(w.ctx, b)
			w.must(err)
		}
		w.pairs(6500)
		w.bounded()
	})
}

// Many events of one commit count, and no more than they are.
func TestHistoryOfLargeCommits(t *testing.T) {
	long.NotShort(t)
	bubble(t, func(w *world) {
		for i := range 60 {
			w.logged(500)
			if n := len(w.kinds("event/")); n < min(500*(i+1), 10_000) || n > 12_500 {
				t.Fatalf("%d events after %d", n, 500*(i+1))
			}
		}
	})
}

// What follows a commit is not part of it: a store that refuses it does not
// make the commit fail.
func TestTidyingFails(t *testing.T) {
	bubble(t, func(w *world) {
		tried := 0
		w.refuse = func(b driver.Batch) bool {
			mine := slices.ContainsFunc(b.Writes, func(wr driver.Write) bool { return wr.Key == "history/marks" })
			if mine {
				tried++
			}
			return mine
		}
		w.pairs(300)
		if tried == 0 {
			t.Error("nothing was refused")
		}
		if n := len(w.kinds("event/")); n != 600 {
			t.Errorf("%d events", n)
		}
	})
}

// No pair pays for many others: what it deletes and reads besides is little.
func TestTidyingIsSpread(t *testing.T) {
	long.NotShort(t)
	near(t, func(w *world) {
		for range 105 {
			w.logged(100)
			time.Sleep(time.Millisecond)
		}
		counted := drivertest.NewCounted(w.mem)
		w = w.through(counted)
		var most drivertest.Counts
		for range 2000 {
			w.pairs(1)
			c := counted.Take()
			most.Records, most.Writes = max(most.Records, c.Records), max(most.Writes, c.Writes)
		}
		if most.Records > 150 || most.Writes > 70 {
			t.Errorf("one pair read %d records and wrote %d", most.Records, most.Writes)
		}
		w.bounded()
	})
}

// A young store has no old events: nobody reads some to see that.
func TestYoungHistoryIsCheap(t *testing.T) {
	near(t, func(w *world) {
		w.pairs(50) // the first count looks whether there is an older history
		counted := drivertest.NewCounted(w.mem)
		w = w.through(counted)
		const n = 1000
		w.pairs(n)
		if each := float64(counted.Take().Records) / n; each > 7 {
			t.Errorf("a pair reads %.1f records", each)
		}
	})
}

// Receipts are not looked at again and again while they are young.
func TestYoungReceiptsAreLeftAlone(t *testing.T) {
	long.NotShort(t)
	for _, n := range []int{100, 1000} {
		near(t, func(w *world) {
			counted := drivertest.NewCounted(w.mem)
			w = w.through(counted)
			for i := range n {
				w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, ID: fmt.Sprintf("id-%d", i)})
				w.release("alice", "a")
			}
			if c := counted.Take(); c.Records > int64(20*n) {
				t.Errorf("%d requests: %+v", n, c)
			}
		})
	}
}

// Marks that cannot be read are begun anew.
func TestDamagedMarks(t *testing.T) {
	long.NotShort(t)
	bubble(t, func(w *world) {
		w.pairs(1000)
		_, err := w.mem.Commit(w.ctx, driver.Batch{Writes: []driver.Write{{Key: "history/marks", Value: []byte(`{"marks":"many"}`)}}})
		w.must(err)
		w.pairs(6500)
		w.bounded()
	})
}

// Receipts of requests go after a day, without anybody calling cleanup.
func TestRequestsAreBounded(t *testing.T) {
	bubble(t, func(w *world) {
		requests := func(n int) {
			for i := range n {
				w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, ID: fmt.Sprintf("%d-%d", time.Now().Unix(), i)})
				w.release("alice", "a")
			}
		}
		requests(500)
		if n := len(w.kinds("request/")); n != 500 {
			t.Fatalf("%d receipts", n)
		}
		time.Sleep(25 * time.Hour)
		requests(500)
		if n := len(w.kinds("request/")); n != 500 {
			t.Errorf("%d receipts, of 500 in the last day", n)
		}
	})
}

func TestCleanupBoundsHistoryAndRequests(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, ID: "one"})
		w.release("alice", "a")
		time.Sleep(25 * time.Hour)
		for i := range 10 {
			var b driver.Batch
			for j := range 1100 {
				b.Writes = append(b.Writes, driver.Write{
					Key: fmt.Sprintf("event/20000101T%06d-%06d", i, j), Value: []byte(`{"event":"acquired","keys":["x"]}`),
				})
			}
			_, err := w.mem.Commit(w.ctx, b)
			w.must(err)
		}
		if out := w.cleanup(lease.CleanupRequest{DryRun: true}); out.Pruned != 1003 {
			t.Errorf("would prune %d", out.Pruned)
		}
		if out := w.cleanup(lease.CleanupRequest{}); out.Pruned != 1003 {
			t.Errorf("pruned %d", out.Pruned)
		}
		if n := len(w.kinds("event/")); n != 10_000 {
			t.Errorf("%d events", n)
		}
		if n := len(w.kinds("request/")); n != 0 {
			t.Errorf("%d receipts", n)
		}
	})
}
