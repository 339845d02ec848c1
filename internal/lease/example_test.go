package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

// A write that counts only while the lock is at its token, in one commit: a
// holder that slept through the end of its lease cannot do harm.
func ExampleFence() {
	ctx, st := context.Background(), store.New(memstore.New())
	write := func(token int64, text string) error {
		_, err := st.Update(ctx, driver.Query{}, func(tx *store.Tx) error {
			if err := lease.Fence(tx, "report", token); err != nil {
				return err
			}
			return tx.Put("text/report", map[string]string{"text": text})
		})
		return err
	}

	old, _ := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{"report"}, Owner: "sleepy"})
	_, _ = lease.Break(ctx, st, lease.BreakRequest{Keys: []string{"report"}, By: "admin", Reason: "it sleeps"})
	now, _ := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{"report"}, Owner: "awake"})

	fmt.Println(write(now.Token, "fresh"))
	fmt.Println(errors.Is(write(old.Token, "stale"), lease.ErrLost))
	// Output:
	// <nil>
	// true
}

// One request for a lock that outlives this process: it ends with its ttl, or
// when it is released, from here or from elsewhere.
func ExampleAcquire() {
	ctx, st := context.Background(), store.New(memstore.New())

	g, err := lease.Acquire(ctx, st, lease.AcquireRequest{
		Keys: []string{"1.0-parse-tokens"}, Owner: "claude:5f1c", TTL: time.Hour, Reason: "rewrite the lexer",
	})
	fmt.Println(g.Keys[0].Key, err)

	// The same owner, and its children, may use it again.
	again, _ := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{"1.0-parse-tokens"}, Owner: "claude:5f1c/reviewer"})
	fmt.Println(again.Keys[0].Reentrant, again.Token == g.Token)

	out, _ := lease.Release(ctx, st, lease.ReleaseRequest{Owner: "claude:5f1c", All: true})
	fmt.Println(len(out.Released))
	// Output:
	// 1.0-parse-tokens <nil>
	// true true
	// 1
}
