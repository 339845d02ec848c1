package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

// The lock is held for as long as the function runs.
func ExampleLocker_WithLock() {
	ctx, st := context.Background(), store.New(memstore.New())
	locker := lock.New(st, nil)

	err := locker.WithLock(ctx, "deploy", nil, func(ctx context.Context, l *lock.Lease) error {
		fmt.Println("deploying, fenced:", l.Token() > 0)
		return ctx.Err() // ends with cause ErrLost if the lease is lost
	})
	fmt.Println(err)

	locked, _ := locker.IsLocked(ctx, "deploy")
	fmt.Println(locked)
	// Output:
	// deploying, fenced: true
	// <nil>
	// false
}

// Two keys, all or nothing, and at most a minute of waiting.
func ExampleLocker_Acquire() {
	ctx, st := context.Background(), store.New(memstore.New())
	locker := lock.New(st, &lock.Options{Owner: "ci-7"})

	l, err := locker.Acquire(ctx, "deploy", &lock.AcquireOptions{Also: []string{"section:Backend"}, Reason: "release 1.4", Wait: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("deploying as", l.Owner()[:5])
	fmt.Println(l.Release(ctx))
	// Output:
	// deploying as ci-7/
	// <nil>
}

// The error says who holds the key and why.
func ExampleLocker_TryAcquire() {
	ctx, st := context.Background(), store.New(memstore.New())
	l, _ := lock.New(st, &lock.Options{Owner: "ci-7"}).Acquire(ctx, "deploy", &lock.AcquireOptions{Reason: "release 1.4"})
	defer l.Release(ctx)

	_, err := lock.New(st, &lock.Options{Owner: "ci-8"}).TryAcquire(ctx, "deploy", nil)
	var held *lock.HeldError
	if errors.As(err, &held) {
		fmt.Println(held.Key, "is held for", held.Reason)
	}
	// Output: deploy is held for release 1.4
}

func ExampleLocker_IsLocked() {
	ctx, st := context.Background(), store.New(memstore.New())
	locker := lock.New(st, nil)

	before, _ := locker.IsLocked(ctx, "deploy")
	l, _ := locker.Acquire(ctx, "deploy", nil)
	during, _ := locker.IsLocked(ctx, "deploy")
	_ = l.Release(ctx)
	after, _ := locker.IsLocked(ctx, "deploy")

	fmt.Println(before, during, after)
	// Output: false true false
}

// A later lease on a key has a larger token.
func ExampleLease_Token() {
	ctx, st := context.Background(), store.New(memstore.New())
	locker := lock.New(st, nil)

	first, _ := locker.Acquire(ctx, "deploy", nil)
	_ = first.Release(ctx)
	second, _ := locker.Acquire(ctx, "deploy", nil)
	defer second.Release(ctx)

	fmt.Println(second.Token() > first.Token())
	// Output: true
}

// Work that obeys the context of its lease ends with the lease. The cause tells
// whether the lease was lost or released.
func ExampleLease_Context() {
	ctx, st := context.Background(), store.New(memstore.New())
	l, _ := lock.New(st, nil).Acquire(ctx, "deploy", nil)

	work := l.Context()
	fmt.Println(work.Err())
	_ = l.Release(ctx)
	fmt.Println(work.Err(), errors.Is(context.Cause(work), lock.ErrLost))
	// Output:
	// <nil>
	// context canceled false
}

// Two workers take two keys in opposite order. The inner call gets the context of
// the outer one, so the store sees that waiting would never end.
func ExampleDeadlockError() {
	ctx, st := context.Background(), store.New(memstore.New())
	locker := lock.New(st, nil)
	var both sync.WaitGroup
	both.Add(2)
	work := func(first, second string) error {
		return locker.WithLock(ctx, first, nil, func(ctx context.Context, _ *lock.Lease) error {
			both.Done()
			both.Wait()
			return locker.WithLock(ctx, second, nil, func(context.Context, *lock.Lease) error { return nil })
		})
	}
	results := make(chan error, 2)
	go func() { results <- work("a", "b") }()
	go func() { results <- work("b", "a") }()

	var deadlock *lock.DeadlockError
	fmt.Println(errors.As(<-results, &deadlock), len(deadlock.Chain), <-results)
	// Output: true 2 <nil>
}

// A write in the same store counts only while its lease does: both are one
// commit, so a holder that slept through the end of its lease does no harm.
func ExampleLease_Fence() {
	ctx, st := context.Background(), store.New(memstore.New())
	locker := lock.New(st, nil)
	write := func(l *lock.Lease, text string) error {
		_, err := st.Update(ctx, driver.Query{}, func(tx *store.Tx) error {
			if err := l.Fence(tx); err != nil {
				return err
			}
			return tx.Put("text/report", map[string]string{"text": text})
		})
		return err
	}

	first, _ := locker.Acquire(ctx, "report", nil)
	_ = first.Release(ctx)
	second, _ := locker.Acquire(ctx, "report", nil)
	defer second.Release(ctx)

	fmt.Println(write(second, "new"))
	fmt.Println(errors.Is(write(first, "old"), lock.ErrLost))
	// Output:
	// <nil>
	// true
}

// A process that works for the holder got the key and the token from it.
func ExampleFence() {
	ctx, st := context.Background(), store.New(memstore.New())
	l, _ := lock.New(st, nil).Acquire(ctx, "report", nil)
	key, token := "report", l.Token()
	write := func(tx *store.Tx) error {
		if err := lock.Fence(tx, key, token); err != nil {
			return err
		}
		return tx.Put("text/report", map[string]string{"text": "new"})
	}

	_, err := st.Update(ctx, driver.Query{}, write)
	fmt.Println(err)
	_ = l.Release(ctx)
	_, err = st.Update(ctx, driver.Query{}, write)
	fmt.Println(errors.Is(err, lock.ErrLost))
	// Output:
	// <nil>
	// true
}

// At most four at a time, each with a database of its own. The size belongs to the
// store: whoever names another one is refused.
func ExampleLocker_WithLock_pool() {
	ctx, st := context.Background(), store.New(memstore.New())
	locker := lock.New(st, nil)

	err := locker.WithLock(ctx, "pool:tests", &lock.AcquireOptions{Slots: 4}, func(ctx context.Context, l *lock.Lease) error {
		slot := l.Slots()[0]
		fmt.Println("a database of its own:", slot >= 1 && slot <= 4)
		full, err := locker.IsLocked(ctx, "pool:tests")
		fmt.Println("full:", full)
		return err
	})
	fmt.Println(err)

	_, err = locker.Acquire(ctx, "pool:tests", &lock.AcquireOptions{Slots: 3})
	var size *lock.PoolSizeError
	fmt.Println(errors.As(err, &size) && size.Size == 4)

	all, err := locker.Acquire(ctx, "pool:tests", &lock.AcquireOptions{Take: lock.TakeAll})
	fmt.Println(all.Slots(), err)
	fmt.Println(all.Release(ctx))
	// Output:
	// a database of its own: true
	// full: false
	// <nil>
	// true
	// [1 2 3 4] <nil>
	// <nil>
}
