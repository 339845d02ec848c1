package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

func TestWithLock(t *testing.T) {
	bubble(t, func(w *world) {
		locker := lease.New(w.st, &lease.Options{Owner: "alice", TTL: time.Minute})
		ran := false
		w.must(locker.WithLock(w.ctx, []string{"b", "a"}, func(ctx context.Context) error {
			ran = true
			time.Sleep(time.Hour)
			if ctx.Err() != nil || !w.locked("a") || !w.locked("b") {
				t.Error("not held during the work")
			}
			return nil
		}))
		if !ran || w.locked("a") || w.locked("b") {
			t.Error("ran", ran, "and left a lock")
		}
		why := errors.New("work failed")
		w.want(locker.WithLock(w.ctx, []string{"a"}, func(context.Context) error { return why }), why)
		if w.locked("a") {
			t.Error("not released after an error")
		}
		as[*lease.InvalidError](w, locker.WithLock(w.ctx, nil, func(context.Context) error { t.Error("ran"); return nil }))
	})
}

func TestWithLockReleasesOnPanic(t *testing.T) {
	bubble(t, func(w *world) {
		locker := lease.New(w.st, nil)
		func() {
			defer func() {
				if p := recover(); p != "oh no" {
					t.Errorf("recovered %v", p)
				}
			}()
			_ = locker.WithLock(w.ctx, []string{"a"}, func(context.Context) error { panic("oh no") })
		}()
		if w.locked("a") {
			t.Error("not released after a panic")
		}
	})
}

func TestWithLockTellsTheWorkOfALoss(t *testing.T) {
	bubble(t, func(w *world) {
		locker := lease.New(w.st, &lease.Options{Owner: "alice", TTL: time.Minute})
		why := errors.New("stopped")
		err := locker.WithLock(w.ctx, []string{"a"}, func(ctx context.Context) error {
			w.breakKeys(lease.BreakRequest{By: "root", Keys: []string{"a"}})
			w.acquire("bob", "a")
			<-ctx.Done()
			w.want(context.Cause(ctx), lease.ErrLost)
			return why
		})
		w.want(err, lease.ErrLost)
		w.want(err, why)
		if w.holder("a") != "bob" {
			t.Error("a is held by", w.holder("a"))
		}
	})
}

func TestNestedWithLock(t *testing.T) {
	bubble(t, func(w *world) {
		locker := lease.New(w.st, &lease.Options{Owner: "alice"})
		other := lease.New(w.st, &lease.Options{Owner: "bob"})
		w.must(locker.WithLock(w.ctx, []string{"a"}, func(outer context.Context) error {
			err := locker.WithLock(outer, []string{"a", "b"}, func(inner context.Context) error {
				return other.WithLock(inner, []string{"a", "b", "c"}, func(context.Context) error { return nil })
			})
			if w.locked("b") || w.locked("c") || !w.locked("a") {
				t.Error("each level gives back what it took, and only that")
			}
			// Without the context of the outer call it is someone else.
			_, held := locker.TryAcquire(w.ctx, "a")
			as[*lease.HeldError](w, held)
			return err
		}))
	})
}

func TestLocker(t *testing.T) {
	bubble(t, func(w *world) {
		one, two := lease.New(w.st, nil), lease.New(w.st, nil)
		l, err := one.Acquire(w.ctx, "a")
		w.must(err)
		if locked, err := two.IsLocked(w.ctx, "a"); err != nil || !locked {
			t.Error(locked, err)
		}
		_, err = two.TryAcquire(w.ctx, "a")
		as[*lease.HeldError](w, err)
		start := time.Now()
		_, err = two.Acquire(w.ctx, "a") // 30 minutes by default
		as[*lease.HeldError](w, err)
		if d := time.Since(start); d < 30*time.Minute || d > 30*time.Minute+time.Second {
			t.Errorf("waited %s", d)
		}
		w.must(l.Release(w.ctx))
		if locked, err := two.IsLocked(w.ctx, "a"); err != nil || locked {
			t.Error(locked, err)
		}
	})
}
