package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
)

// A lock for as long as some work takes, whatever becomes of it.
func ExampleLocker_WithLock() {
	ctx, st := context.Background(), store.New(memstore.New())
	locker := lock.New(st, nil)

	err := locker.WithLock(ctx, []string{"deploy", "section:Backend"}, func(ctx context.Context) error {
		fmt.Println("deploying")
		return ctx.Err() // ends with cause ErrLost if the lease is lost
	})
	fmt.Println(err)

	locked, _ := locker.IsLocked(ctx, "deploy")
	fmt.Println(locked)
	// Output:
	// deploying
	// <nil>
	// false
}

// Waiting for a key: first come, first served.
func ExampleLocker_Acquire() {
	ctx, st := context.Background(), store.New(memstore.New())

	held, err := lock.New(st, &lock.Options{Owner: "ci-7", Wait: time.Minute}).Acquire(ctx, "deploy")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("deploying as", held.Owner()[:5])
	fmt.Println(held.Release(ctx))
	// Output:
	// deploying as ci-7/
	// <nil>
}

// Not waiting: who holds it, and since when, is in the error.
func ExampleLocker_TryAcquire() {
	ctx, st := context.Background(), store.New(memstore.New())
	held, _ := lock.New(st, &lock.Options{Owner: "ci-7", Reason: "release 1.4"}).Acquire(ctx, "deploy")
	defer held.Release(ctx)

	_, err := lock.New(st, &lock.Options{Owner: "ci-8"}).TryAcquire(ctx, "deploy")
	var refused *lock.HeldError
	if errors.As(err, &refused) {
		fmt.Println(refused.Key, "is held for", refused.Reason)
	}
	// Output: deploy is held for release 1.4
}

func ExampleLocker_IsLocked() {
	ctx, st := context.Background(), store.New(memstore.New())
	locker := lock.New(st, nil)

	before, _ := locker.IsLocked(ctx, "deploy")
	held, _ := locker.Acquire(ctx, "deploy")
	during, _ := locker.IsLocked(ctx, "deploy")
	_ = held.Release(ctx)
	after, _ := locker.IsLocked(ctx, "deploy")

	fmt.Println(before, during, after)
	// Output: false true false
}

// The token of a later grant is always larger, so that whatever is guarded can
// tell an old holder from a new one.
func ExampleLease_Token() {
	ctx, st := context.Background(), store.New(memstore.New())
	locker := lock.New(st, nil)

	first, _ := locker.Acquire(ctx, "deploy")
	_ = first.Release(ctx)
	second, _ := locker.Acquire(ctx, "deploy")
	defer second.Release(ctx)

	fmt.Println(second.Token() > first.Token())
	// Output: true
}
