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
	"github.com/tasklock/tasklock/store/memstore"
)

// scale measures what grows with the number of locks and waiters.
func (b *bench) scale() {
	b.section("Scale")
	const locks, batch = 10_000, 100
	path := filepath.Join(b.fresh("scale"), "tasklock.db")
	st := store.New(open(path))
	for i := 0; i < locks; i += batch {
		var keys []string
		for j := range batch {
			keys = append(keys, fmt.Sprintf("key-%05d", i+j))
		}
		_, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: keys, Owner: fmt.Sprint("owner-", i)})
		check(err)
	}
	start := time.Now()
	check(exec.Command(b.bin, "list", "--store", "sqlite:"+path, "--json").Run())
	took := time.Since(start)
	b.row("list of 10,000 locks, whole command", took.Round(time.Millisecond).String(), "<= 300ms", took <= 300*time.Millisecond)
	b.stampede()
}

// stampede counts what one release costs when a thousand wait.
func (b *bench) stampede() {
	const waiters = 1000
	c := &counting{Store: memstore.New()}
	st := store.New(c)
	g, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{"key"}, Owner: "holder"})
	check(err)
	wctx, cancel := context.WithCancel(ctx)
	granted := make(chan string, waiters)
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			owner := fmt.Sprint("waiter-", i)
			if g, err := lease.Acquire(wctx, st, lease.AcquireRequest{Keys: []string{"key"}, Owner: owner, Wait: time.Hour}); err == nil {
				granted <- g.LeaseID
			}
		})
	}
	for {
		s, err := lease.Show(ctx, st, "key")
		check(err)
		if len(s.Waiters) == waiters {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
	before := c.calls.Load()
	_, err = lease.Release(ctx, st, lease.ReleaseRequest{Owner: "holder", Lease: g.LeaseID})
	check(err)
	<-granted
	time.Sleep(200 * time.Millisecond)
	calls := c.calls.Load() - before
	b.row("calls of the store for a release, 1,000 waiting", fmt.Sprint(calls), "a handful (<= 12)", calls <= 12)
	cancel()
	wg.Wait()
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
