package lease_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

// TestTold: a lease that is broken is lost at once, long before a heartbeat
// would find out, and says by whom; one that is only renewed is not.
func TestTold(t *testing.T) {
	for name, c := range map[string]struct {
		end func(w *world, l *lease.Lease)
		why string
	}{
		"broken": {func(w *world, l *lease.Lease) {
			w.breakKeys(lease.BreakRequest{Keys: []string{"path:src/**"}, By: "bob", Reason: "stuck"})
		}, "broken by bob: stuck"},
		"broken and taken": {func(w *world, l *lease.Lease) {
			w.breakKeys(lease.BreakRequest{Keys: []string{"a"}, By: "bob"})
			w.acquire("bob", "a")
		}, "broken by bob"},
		"session ended": {func(w *world, l *lease.Lease) {
			_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", All: true})
			w.must(err)
		}, "released by alice"},
		"gone without a word, as after a restore": {func(w *world, l *lease.Lease) {
			w.overwrite("lock/a", "")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				r := minute("alice", "a", "path:src/**")
				r.TTL = 24 * time.Hour
				l := w.hold(r)
				time.Sleep(9 * time.Hour)
				if l.Err() != nil {
					t.Fatal(l.Err())
				}
				c.end(w, l)
				if after := w.lostAfter(l); after > 2*time.Second {
					t.Errorf("noticed after %s", after)
				}
				if lost := as[*lease.LostError](w, l.Err()); lost.Why != c.why {
					t.Errorf("the reason is %q", lost.Why)
				}
				w.want(l.Release(w.ctx), lease.ErrLost)
			})
		})
	}
}

// TestToldOnlyByTheStore: a read that fails changes nothing, the ttl decides;
// the holder hears what happened as soon as the store answers.
func TestToldOnlyByTheStore(t *testing.T) {
	bubble(t, func(w *world) {
		o := &outage{Store: w.mem}
		r := minute("alice", "a")
		r.TTL = 24 * time.Hour
		l, err := lease.Hold(w.ctx, w.through(o).st, r)
		w.must(err)
		o.state.Store("fails")
		w.breakKeys(lease.BreakRequest{Keys: []string{"a"}, By: "bob"})
		time.Sleep(time.Hour)
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
		o.state.Store("")
		if after := w.lostAfter(l); after > 10*time.Second {
			t.Errorf("noticed after %s", after)
		}
		w.want(l.Release(w.ctx), lease.ErrLost)
	})
}

// TestOwnEnd: a command that releases its own holder may finish, unless
// somebody else has come.
func TestOwnEnd(t *testing.T) {
	for _, outer := range []bool{false, true} { // or under a lock of its parent, which ends with it
		bubble(t, func(w *world) {
			if outer {
				w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: 24 * time.Hour})
			}
			r := minute("alice", "a")
			r.TTL = 24 * time.Hour
			l := w.hold(r)
			_, err := w.st.Update(w.ctx, driver.Query{}, func(tx *store.Tx) error {
				return lease.ReleaseKey(tx, "a", l.Owner()+"/cmd", "done")
			})
			w.must(err)
			time.Sleep(time.Hour)
			if l.Err() != nil {
				t.Fatal(l.Err())
			}
			w.acquire("bob", "a")
			if after := w.lostAfter(l); after > 2*time.Second {
				t.Errorf("noticed after %s", after)
			}
			w.want(l.Release(w.ctx), lease.ErrLost)
		})
	}
}

// TestFollowersShareOneRead: a thousand holders of one process cost one read a
// second, and wait for nothing.
func TestFollowersShareOneRead(t *testing.T) {
	bubble(t, func(w *world) {
		c := drivertest.NewCounted(w.mem)
		st := store.New(c)
		var leases []*lease.Lease
		for i := range 1000 {
			r := minute("alice", "key-"+strconv.Itoa(i))
			r.TTL = 24 * time.Hour
			l, err := lease.Hold(w.ctx, st, r)
			w.must(err)
			leases = append(leases, l)
		}
		c.Take()
		time.Sleep(time.Minute)
		if n := c.Take(); n.Reads < 50 || n.Reads > 70 || n.Waits != 0 {
			t.Errorf("%d reads and %d waits in a minute", n.Reads, n.Waits)
		}
		for _, l := range leases {
			w.must(l.Release(w.ctx))
		}
		c.Take()
		time.Sleep(time.Minute)
		if n := c.Take().Reads; n != 0 {
			t.Errorf("%d reads for nobody", n)
		}
	})
}

// TestMaxHoldIsNamed: what ends by max hold says so, and not that heartbeats or
// the process failed.
func TestMaxHoldIsNamed(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, time.Minute, time.Hour} {
		bubble(t, func(w *world) {
			r := minute("alice", "a")
			r.MaxHold = limit
			l := w.hold(r)
			w.lostAfter(l)
			for _, err := range []error{l.Err(), l.Overdue()} {
				if lost := as[*lease.LostError](w, err); lost.MaxHold != limit {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// The same for whoever works under a lock of its parent that ends so.
func TestMaxHoldOfWhatIsUsed(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour, MaxHold: time.Minute})
		l := w.hold(minute("alice", "a"))
		w.lostAfter(l)
		if lost := as[*lease.LostError](w, l.Err()); !strings.Contains(lost.Why, "max hold") {
			t.Error(lost)
		}
	})
}

// TestNamedHolder: who comes back under its name goes on where it stood, before
// those who came meanwhile, and then holds as everyone does.
func TestNamedHolder(t *testing.T) {
	bubble(t, func(w *world) {
		first := w.hold(minute("alice", "a"))
		r := minute("bob", "a")
		r.Holder, r.Wait = "h", time.Second
		place := func(r lease.AcquireRequest, want int) {
			t.Helper()
			_, err := lease.Hold(w.ctx, w.st, r)
			if held := as[*lease.HeldError](w, err); held.Position != want {
				t.Errorf("%s/%s has place %d, want %d", r.Owner, r.Holder, held.Position, want)
			}
		}
		place(r, 1)
		other := r
		other.Holder = "i"
		place(other, 2)
		other.Holder = "" // nobody could come back under this name
		place(other, 0)
		place(r, 1)
		w.must(first.Release(w.ctx))
		l := w.hold(r)
		if l.Owner() != "bob/h" {
			t.Error(l.Owner())
		}
		time.Sleep(time.Hour)
		w.must(l.Release(w.ctx))
	})
}
