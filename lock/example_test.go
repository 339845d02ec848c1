package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
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

	lease, err := lock.New(st, &lock.Options{Owner: "ci-7", Wait: time.Minute}).Acquire(ctx, "deploy")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("deploying as", lease.Owner()[:5])
	fmt.Println(lease.Release(ctx))
	// Output:
	// deploying as ci-7/
	// <nil>
}

// Not waiting: who holds it, and since when, is in the error.
func ExampleLocker_TryAcquire() {
	ctx, st := context.Background(), store.New(memstore.New())
	lease, _ := lock.New(st, &lock.Options{Owner: "ci-7", Reason: "release 1.4"}).Acquire(ctx, "deploy")
	defer lease.Release(ctx)

	_, err := lock.New(st, &lock.Options{Owner: "ci-8"}).TryAcquire(ctx, "deploy")
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
	lease, _ := locker.Acquire(ctx, "deploy")
	during, _ := locker.IsLocked(ctx, "deploy")
	_ = lease.Release(ctx)
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

// A write that counts only while the lock is at its token, in one commit: a
// holder that slept through the end of its lease cannot do harm.
func ExampleFence() {
	ctx, st := context.Background(), store.New(memstore.New())
	write := func(token int64, text string) error {
		_, err := st.Update(ctx, driver.Query{}, func(tx *store.Tx) error {
			if err := lock.Fence(tx, "report", token); err != nil {
				return err
			}
			return tx.Put("text/report", map[string]string{"text": text})
		})
		return err
	}

	old, _ := lock.Acquire(ctx, st, lock.AcquireRequest{Keys: []string{"report"}, Owner: "sleepy"})
	_, _ = lock.Break(ctx, st, lock.BreakRequest{Keys: []string{"report"}, By: "admin", Reason: "it sleeps"})
	now, _ := lock.Acquire(ctx, st, lock.AcquireRequest{Keys: []string{"report"}, Owner: "awake"})

	fmt.Println(write(now.Token, "fresh"))
	fmt.Println(errors.Is(write(old.Token, "stale"), lock.ErrLost))
	// Output:
	// <nil>
	// true
}

// One request for a lock that outlives this process: it ends with its ttl, or
// when it is released, from here or from elsewhere.
func ExampleAcquire() {
	ctx, st := context.Background(), store.New(memstore.New())

	g, err := lock.Acquire(ctx, st, lock.AcquireRequest{
		Keys: []string{"1.0-parse-tokens"}, Owner: "claude:5f1c", TTL: time.Hour, Reason: "rewrite the lexer",
	})
	fmt.Println(g.Keys[0].Key, err)

	// The same owner, and its children, may use it again.
	again, _ := lock.Acquire(ctx, st, lock.AcquireRequest{Keys: []string{"1.0-parse-tokens"}, Owner: "claude:5f1c/reviewer"})
	fmt.Println(again.Keys[0].Reentrant, again.Token == g.Token)

	out, _ := lock.Release(ctx, st, lock.ReleaseRequest{Owner: "claude:5f1c", All: true})
	fmt.Println(len(out.Released))
	// Output:
	// 1.0-parse-tokens <nil>
	// true true
	// 1
}
