package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		st := store.New(memstore.New())
		g, err := lock.Acquire(ctx, st, lock.AcquireRequest{Keys: []string{"b", "a", "b"}, Owner: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", g)
		_, err = lock.Acquire(ctx, st, lock.AcquireRequest{Keys: []string{"a"}, Owner: "bob", Wait: time.Minute})
		var held *lock.HeldError
		if !errors.As(err, &held) {
			t.Fatal(err)
		}
		t.Logf("%+v", held)
		done := make(chan error)
		go func() {
			g, err := lock.Acquire(ctx, st, lock.AcquireRequest{Keys: []string{"a"}, Owner: "bob", Wait: 2 * time.Hour})
			t.Logf("%+v", g)
			done <- err
		}()
		time.Sleep(time.Second)
		if _, err := lock.Release(ctx, st, lock.ReleaseRequest{Owner: "alice", Lease: g.LeaseID}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		h, _ := lock.History(ctx, st, lock.HistoryRequest{})
		for _, e := range h.Events {
			t.Logf("%+v", e)
		}
		l, err := lock.List(ctx, st, lock.ListRequest{})
		t.Logf("%+v %v", l, err)
	})
}
