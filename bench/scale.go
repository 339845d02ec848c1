package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// scale measures what grows with the number of locks and waiters.
func (b *bench) scale() {
	b.section("Scale")
	b.listing()
	b.joining("SQLite", open(filepath.Join(b.fresh("joining"), "tasklock.db")), 1000, 5*time.Second)
	b.joining("files", openFiles(filepath.Join(b.fresh("joining"), "files")), 1000, 5*time.Second)
	b.joiningApart(300)
	b.cleaning()
}

// growth is a row about what takes that long for sizes of which each is ten times
// the one before: if it took the square of that, each would be 100 × the one before.
func (b *bench) growth(what string, took []time.Duration) {
	var each, times []string
	ok := true
	for i, d := range took {
		each = append(each, short(d))
		if i > 0 {
			ratio := d.Seconds() / took[i-1].Seconds()
			times = append(times, fmt.Sprintf("x %.1f", ratio))
			ok = ok && ratio <= 15
		}
	}
	b.row(what, strings.Join(each, ", ")+": "+strings.Join(times, ", "), "each <= x 15", ok)
}

// listing measures how the list of all locks grows.
func (b *bench) listing() {
	path := filepath.Join(b.fresh("scale"), "tasklock.db")
	st := store.New(open(path))
	var took []time.Duration
	locks := 0
	for _, n := range []int{100, 1000, 10_000} {
		locks = hold(st, locks, n)
		var calls []time.Duration
		for range 10 {
			calls = append(calls, b.time(b.dir, b.bin, "list", "--store", "sqlite:"+path, "--json"))
		}
		took = append(took, percentile(calls, 0.5))
	}
	b.row("list of 10,000 locks, whole command", took[2].Round(time.Millisecond).String(), "<= 300ms", took[2] <= 300*time.Millisecond)
	b.growth("list of 100, 1,000, 10,000 locks", took)
	b.paging(st, locks)
}

// paging measures a page in the middle of many locks.
func (b *bench) paging(st *store.Store, locks int) {
	hold(st, locks, 100_000)
	var calls []time.Duration
	for i := range 50 {
		start := time.Now()
		out, err := lease.List(ctx, st, lease.ListRequest{After: fmt.Sprintf("key-%05d", 1000*i), Limit: 100})
		if calls = append(calls, time.Since(start)); err == nil && len(out.Locks) != 100 {
			err = fmt.Errorf("%d locks on a page of 100", len(out.Locks))
		}
		check(err)
	}
	took := percentile(calls, 0.5)
	b.row("list of 100 of 100,000 locks, library", short(took), "<= 20ms", took <= 20*time.Millisecond)
}

// hold takes locks until there are so many.
func hold(st *store.Store, locks, most int) int {
	for ; locks < most; locks += 10 {
		var keys []string
		for j := range 10 {
			keys = append(keys, fmt.Sprintf("key-%05d", locks+j))
		}
		_, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: keys, Owner: fmt.Sprint("owner-", locks)})
		check(err)
	}
	return locks
}

// joining measures how so many join one queue at once, how that grows, and what one
// release costs then. within is the aim; 0: none but that no one fails.
func (b *bench) joining(name string, d driver.Store, most int, within time.Duration) {
	counted := &counting{Store: d}
	st := store.New(counted)
	var took []time.Duration
	for _, n := range []int{most / 100, most / 10, most} {
		c := newCrowd(st, fmt.Sprint("key-", n), n)
		took = append(took, c.took)
		if n == most {
			aim := "none fails"
			if within > 0 {
				aim = fmt.Sprintf("<= %v, none fails", within)
			}
			b.row(fmt.Sprintf("%s: %d join one queue", name, n), fmt.Sprintf("%v, %d fail", c.took.Round(time.Millisecond), c.failed.Load()),
				aim, (within == 0 || c.took <= within) && c.failed.Load() == 0)
			time.Sleep(500 * time.Millisecond)
			before := counted.calls.Load()
			c.release()
			time.Sleep(200 * time.Millisecond)
			calls := counted.calls.Load() - before
			b.row(fmt.Sprintf("%s: calls for a release, %d waiting", name, n), fmt.Sprint(calls), "a handful (<= 12)", calls <= 12)
		}
		c.leave()
	}
	b.growth(fmt.Sprintf("%s: %d, %d, %d join", name, most/100, most/10, most), took)
	check(d.Close())
}

// A crowd waits for one key.
type crowd struct {
	st      *store.Store
	holder  string
	granted chan string
	failed  atomic.Int64
	took    time.Duration // until all had joined
	all     sync.WaitGroup
	stop    context.CancelFunc
}

func newCrowd(st *store.Store, key string, n int) *crowd {
	c := &crowd{st: st, granted: make(chan string, n)}
	g, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{key}, Owner: "holder"})
	check(err)
	c.holder = g.LeaseID
	wctx, stop := context.WithCancel(ctx)
	c.stop = stop
	var joined sync.WaitGroup
	joined.Add(n)
	start := time.Now()
	for i := range n {
		c.all.Go(func() {
			waits := sync.OnceFunc(joined.Done)
			defer waits()
			g, err := lease.Acquire(wctx, st, lease.AcquireRequest{
				Keys: []string{key}, Owner: fmt.Sprint("waiter-", i), Wait: time.Hour, Waiting: func(lease.HeldError) { waits() },
			})
			if err == nil {
				c.granted <- g.LeaseID
			} else if wctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
				c.failed.Add(1)
			}
		})
	}
	joined.Wait()
	c.took = time.Since(start)
	return c
}

// release returns when the next one has the key.
func (c *crowd) release() {
	_, err := lease.Release(ctx, c.st, lease.ReleaseRequest{Owner: "holder", Lease: c.holder})
	check(err)
	<-c.granted
}

func (c *crowd) leave() {
	c.stop()
	c.all.Wait()
}

// cleaning measures how cleanup grows with the number of expired locks.
func (b *bench) cleaning() {
	var took []time.Duration
	for _, n := range []int{100, 1000, 10_000} {
		d := open(filepath.Join(b.fresh(fmt.Sprint("cleanup-", n)), "tasklock.db"))
		expire(d, n)
		start := time.Now()
		out, err := lease.Cleanup(ctx, store.New(d), lease.CleanupRequest{By: "bench"})
		check(err)
		took = append(took, time.Since(start))
		if len(out.Freed) != n {
			check(fmt.Errorf("cleanup freed %d of %d", len(out.Freed), n))
		}
		check(d.Close())
	}
	b.growth("cleanup of 100, 1,000, 10,000 locks", took)
}

// expire writes so many locks that have expired.
func expire(d driver.Store, n int) {
	for first := 0; first < n; first += 500 {
		var batch driver.Batch
		for i := first; i < min(first+500, n); i++ {
			batch.Writes = append(batch.Writes,
				driver.Write{Key: fmt.Sprintf("lock/key-%d", i), Value: fmt.Appendf(nil, `{"key":"key-%d","lease":"owner-%d/id","owner":"owner-%d","since":"2026-01-01T00:00:00Z"}`, i, i, i)},
				driver.Write{Key: fmt.Sprintf("lease/owner-%d/id", i), Value: fmt.Appendf(nil, `{"owner":"owner-%d","keys":["key-%d"],"ttlSeconds":0.001,"since":"2026-01-01T00:00:00Z"}`, i, i)})
		}
		_, err := d.Commit(ctx, batch)
		check(err)
	}
	time.Sleep(10 * time.Millisecond)
}

// counting counts reads and commits.
type counting struct {
	driver.Store
	calls atomic.Int64
}

func (c *counting) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	c.calls.Add(1)
	return c.Store.Read(ctx, q)
}

func (c *counting) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	c.calls.Add(1)
	return c.Store.Commit(ctx, b)
}
