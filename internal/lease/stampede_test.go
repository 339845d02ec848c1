package lease_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

// through is the same world, its store reached through d.
func (w *world) through(d driver.Store) *world {
	other := *w
	other.st = store.New(d)
	return &other
}

// One release is the business of two: who is served, and who stands next.
func TestOneReleaseDoesNotWakeAThousand(t *testing.T) {
	long.NotShort(t)
	bubble(t, func(w *world) {
		counted := drivertest.NewCounted(w.mem)
		all := w.through(counted)
		holder := "first"
		w.acquire(holder, "a")
		var calls []*call
		for i := range crowd {
			c := &call{done: make(chan struct{})}
			ctx, cancel := context.WithCancelCause(w.ctx)
			c.cancel = cancel
			calls = append(calls, c)
			go func() {
				defer close(c.done)
				c.grant, c.err = lease.Acquire(ctx, all.st, lease.AcquireRequest{
					Owner: fmt.Sprintf("w%04d", i), Keys: []string{"a"}, Wait: 24 * time.Hour,
				})
			}()
			synctest.Wait()
		}
		// They joined within ten seconds: no heartbeat is due yet.
		for i, c := range calls[:5] {
			counted.Take()
			w.release(holder, "a")
			w.settle()
			if !c.ended() {
				t.Fatal("not served")
			}
			w.must(c.err)
			holder = c.grant.Owner
			if n := counted.Take(); n.Reads > 10 || n.Commits+n.Refused > 2 {
				t.Errorf("release %d: %+v", i, n)
			}
		}
		w.stop(calls[5:]...)
	})
}

// Who joins a queue costs the same however many join with it, and none fails. The
// queue is in the order of the commits.
func TestJoiningTogether(t *testing.T) {
	for name, owner := range map[string]func(i int) string{
		"many owners": func(i int) string { return fmt.Sprintf("w%04d", i) },
		"one owner":   func(int) string { return "w" },
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{20, 200} {
				bubble(t, func(w *world) { w.joinTogether(n, owner) })
			}
		})
	}
}

func (w *world) joinTogether(n int, owner func(i int) string) {
	w.Helper()
	counted := drivertest.NewCounted(drivertest.NewFar(w.T, w.mem, nil))
	w.acquire("first", "a")
	ctx, stop := context.WithCancel(w.ctx)
	var joined atomic.Int64
	var all sync.WaitGroup
	st := store.New(counted)
	for i := range n {
		all.Go(func() {
			var once sync.Once
			_, err := lease.Acquire(ctx, st, lease.AcquireRequest{
				Owner: owner(i), Keys: []string{"a"}, Wait: time.Hour, Waiting: func(lease.HeldError) { once.Do(func() { joined.Add(1) }) },
			})
			if ctx.Err() == nil {
				w.Errorf("%d: %v", i, err)
			}
		})
	}
	time.Sleep(8 * time.Second) // by the clock of the bubble: no heartbeat is due
	if got := int(joined.Load()); got != n || len(w.waiters("a")) != n {
		w.Errorf("%d of %d have joined, the queue has %d", got, n, len(w.waiters("a")))
	}
	if c := counted.Take(); c.Records > int64(100*n) || c.Commits+c.Refused > int64(3*n) {
		w.Errorf("%d joined: %+v", n, c)
	}
	stop()
	all.Wait()
}

// A waiter renews its ticket and looks now and then. It does not read the queue
// because the one ahead of it has renewed its own.
func TestWaitingCostsLittle(t *testing.T) {
	bubble(t, func(w *world) {
		const n = 50
		counted := drivertest.NewCounted(w.mem)
		all := w.through(counted)
		w.acquire("first", "a")
		var calls []*call
		for i := range n {
			calls = append(calls, all.wait(fmt.Sprintf("w%02d", i), "a"))
			time.Sleep(100 * time.Millisecond)
		}
		counted.Take()
		time.Sleep(time.Minute)
		c := counted.Take()
		if c.Commits < 3*n || c.Commits > 7*n || c.Refused > 0 || c.Reads > 4*c.Commits || c.Records > 12*c.Commits {
			t.Errorf("a minute of %d waiters: %+v", n, c)
		}
		w.stop(calls...)
	})
}

// distant is a store that takes a while for a commit.
type distant struct{ driver.Store }

func (d distant) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if err := driver.Sleep(ctx, 100*time.Millisecond); err != nil {
		return 0, err
	}
	return d.Store.Commit(ctx, b)
}

// Many who give up at once leave no ticket that others would wait for.
func TestLeavingTogether(t *testing.T) {
	bubble(t, func(w *world) {
		far := w.through(distant{w.mem})
		w.acquire("first", "a")
		var calls []*call
		for i := range 100 {
			calls = append(calls, far.begin(lease.AcquireRequest{Owner: fmt.Sprintf("w%02d", i), Keys: []string{"a"}, Wait: 24 * time.Hour}))
		}
		time.Sleep(time.Minute)
		if n := len(w.waiters("a")); n != len(calls) {
			t.Fatalf("%d wait", n)
		}
		for _, c := range calls {
			c.cancel(nil)
		}
		time.Sleep(10 * time.Second)
		if left := w.kinds("lease/w"); len(left) > 0 {
			t.Errorf("%d tickets of waiters are left", len(left))
		}
		w.release("first", "a")
		w.acquire("next", "a")
		equal(w, "queues", w.kinds("queue/"), nil)
	})
}

// longQueues is a store that takes a while to read a queue.
type longQueues struct{ driver.Store }

func (l longQueues) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	if slices.ContainsFunc(q.Keys, func(k string) bool { return strings.HasPrefix(k, "queue/") }) {
		if err := driver.Sleep(ctx, 3*time.Second); err != nil {
			return driver.Snapshot{}, err
		}
	}
	return l.Store.Read(ctx, q)
}

// Who gives up leaves no ticket, even if the store is too slow to read the queue.
func TestLeavingALongQueue(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("first", "a")
		waiter := w.through(longQueues{w.mem}).begin(lease.AcquireRequest{Owner: "w", Keys: []string{"a"}, Wait: 24 * time.Hour})
		time.Sleep(time.Minute)
		if n := len(w.waiters("a")); n != 1 {
			t.Fatalf("%d wait", n)
		}
		waiter.cancel(nil)
		time.Sleep(10 * time.Second)
		equal(w, "tickets", w.kinds("lease/w"), nil)
	})
}

// queue writes n tickets as they are stored, for the keys of each.
func (w *world) queue(n int, owner string, keys func(i int) []string) {
	w.Helper()
	var b driver.Batch
	put := func(key string, v any) {
		value, err := json.Marshal(v)
		w.must(err)
		b.Writes = append(b.Writes, driver.Write{Key: key, Value: value})
	}
	queues := map[string][]string{}
	for i := range n {
		name := fmt.Sprintf("%s-%d/ticket", owner, i)
		put("lease/"+name, map[string]any{
			"owner": strings.TrimSuffix(name, "/ticket"), "waitsFor": keys(i), "ttlSeconds": 30, "since": time.Now(),
		})
		for _, k := range keys(i) {
			queues[k] = append(queues[k], name)
		}
	}
	for k, tickets := range queues {
		q := map[string]any{"tickets": tickets}
		if len(keys(0)) > 1 {
			q["batches"] = tickets
		}
		put("queue/"+k, q)
	}
	_, err := w.mem.Commit(w.ctx, b)
	w.must(err)
}

func TestQueueFull(t *testing.T) {
	long.NotShort(t)
	for name, c := range map[string]struct {
		owner    string
		min, max int
	}{
		"by number": {"w", 1000, 1000},
		"by size":   {strings.Repeat("long-owner-name", 6), 480, 600},
	} {
		t.Run(name, func(t *testing.T) {
			near(t, func(w *world) {
				w.acquire("first", "a")
				n := c.min - 5
				w.queue(n, c.owner, func(int) []string { return []string{"a"} })
				for ; ; n++ { // each leaves its ticket
					_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: fmt.Sprintf("%s-%d", c.owner, n), Keys: []string{"a"}, Wait: time.Nanosecond})
					if _, held := err.(*lease.HeldError); !held {
						w.want(err, lease.ErrQueueFull)
						break
					}
				}
				if n < c.min || n > c.max {
					t.Errorf("full after %d", n)
				}
				// Present waiters get an answer; absent ones make room.
				time.Sleep(31 * time.Second)
				last := w.wait("last", "a")
				equal(w, "waiters", w.waiters("a"), []string{"last"})
				w.stop(last)
				w.release("first", "a")
			})
		})
	}
}

// Absent waiters make room also behind one who is there.
func TestQueueFullOfTheAbsent(t *testing.T) {
	near(t, func(w *world) {
		w.acquire("first", "a")
		w.queue(1000, "w", func(int) []string { return []string{"a"} })
		time.Sleep(20 * time.Second)
		w.must(w.renewTicket("w-0/ticket"))
		time.Sleep(11 * time.Second) // the others have lapsed
		last := w.wait("last", "a")
		w.waiting(last)
		equal(w, "waiters", w.waiters("a"), []string{"w-0", "last"})
		w.stop(last)
	})
}

// renewTicket writes a ticket again, as its heartbeat does.
func (w *world) renewTicket(name string) error {
	snap, err := w.mem.Read(w.ctx, driver.Query{Keys: []string{"lease/" + name}})
	w.must(err)
	_, err = w.mem.Commit(w.ctx, driver.Batch{Writes: []driver.Write{{Key: "lease/" + name, Value: snap.Records[0].Value}}})
	return err
}

func TestAThousandWhoDidNotComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		owner string
		n     int
	}{
		"many": {"w", 999},
		"long": {strings.Repeat("long-owner-name", 6), 480},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.acquire("first", "a")
				w.queue(c.n, c.owner, func(int) []string { return []string{"a"} })
				w.release("first", "a")
				w.refused("late", "a")
				// There is room again when the others did not come back.
				time.Sleep(31 * time.Second)
				w.acquire("late", "a")
				w.release("late", "a")
				time.Sleep(5 * time.Minute)
				w.acquire("late", "a")
				if left := append(w.kinds("queue/"), w.kinds("lease/"+c.owner)...); len(left) > 0 {
					t.Errorf("%d records of waiters left", len(left))
				}
			})
		})
	}
}
