package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
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
	const locks, batch = 10_000, lease.MaxKeys
	path := filepath.Join(b.fresh("scale"), "tasklock.db")
	st := store.New(open(path))
	for i := 0; i < locks; i += batch {
		var keys []string
		for j := range min(batch, locks-i) {
			keys = append(keys, fmt.Sprintf("key-%05d", i+j))
		}
		_, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: keys, Owner: fmt.Sprint("owner-", i)})
		check(err)
	}
	start := time.Now()
	check(exec.Command(b.bin, "list", "--store", "sqlite:"+path, "--json").Run())
	took := time.Since(start)
	b.row("list of 10,000 locks, whole command", took.Round(time.Millisecond).String(), "<= 300ms", took <= 300*time.Millisecond)
	b.joining("SQLite", open(filepath.Join(b.fresh("joining"), "tasklock.db")))
	b.cleaning()
}

// joining measures how a thousand join one queue at once, and counts what one
// release costs then.
func (b *bench) joining(name string, d driver.Store) {
	const waiters = 1000
	counted := &counting{Store: d}
	st := store.New(counted)
	g, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{"key"}, Owner: "holder"})
	check(err)
	wctx, cancel := context.WithCancel(ctx)
	granted := make(chan string, waiters)
	var failed atomic.Int64
	var all, joined sync.WaitGroup
	joined.Add(waiters)
	start := time.Now()
	for i := range waiters {
		all.Go(func() {
			waits := sync.OnceFunc(joined.Done)
			defer waits()
			g, err := lease.Acquire(wctx, st, lease.AcquireRequest{
				Keys: []string{"key"}, Owner: fmt.Sprint("waiter-", i), Wait: time.Hour, Waiting: func(lease.HeldError) { waits() },
			})
			if err == nil {
				granted <- g.LeaseID
			} else if wctx.Err() == nil {
				failed.Add(1)
			}
		})
	}
	joined.Wait()
	took := time.Since(start)
	b.row(name+": 1,000 join one queue", fmt.Sprintf("%v, %d fail", took.Round(time.Millisecond), failed.Load()), "<= 5s, none fails", took <= 5*time.Second && failed.Load() == 0)
	time.Sleep(500 * time.Millisecond)
	before := counted.calls.Load()
	_, err = lease.Release(ctx, st, lease.ReleaseRequest{Owner: "holder", Lease: g.LeaseID})
	check(err)
	<-granted
	time.Sleep(200 * time.Millisecond)
	calls := counted.calls.Load() - before
	b.row(name+": calls for a release, 1,000 waiting", fmt.Sprint(calls), "a handful (<= 12)", calls <= 12)
	cancel()
	all.Wait()
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
	tenth, whole := took[1].Seconds()/took[0].Seconds(), took[2].Seconds()/took[1].Seconds()
	b.row("cleanup of 100, 1,000, 10,000 locks", fmt.Sprintf("%v, %v, %v: x %.1f, x %.1f", took[0].Round(time.Millisecond), took[1].Round(time.Millisecond), took[2].Round(time.Millisecond), tenth, whole),
		"each <= x 15", tenth <= 15 && whole <= 15)
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
