package lock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	_ "github.com/tasklock/tasklock/store/gitstore"
	"github.com/tasklock/tasklock/store/memstore"
	_ "github.com/tasklock/tasklock/store/sqlitestore"
)

func TestMain(m *testing.M) {
	host.Self() // reads files: not inside a bubble
	goleak.VerifyTestMain(m)
}

// A world is a store in a bubble of fake time.
type world struct {
	*testing.T
	ctx context.Context
	st  *store.Store
}

func bubble(t *testing.T, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fn(&world{T: t, ctx: t.Context(), st: store.New(drivertest.NewStrict(t, memstore.New()))})
	})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) want(err, target error) {
	w.Helper()
	if !errors.Is(err, target) {
		w.Errorf("error is %v, want %v", err, target)
	}
}

func as[E error](w *world, err error) (e E) {
	w.Helper()
	if !errors.As(err, &e) {
		w.Fatalf("error is %v, want a %T", err, e)
	}
	return e
}

func (w *world) locked(key string) bool {
	w.Helper()
	locked, err := lock.New(w.st, nil).IsLocked(w.ctx, key)
	w.must(err)
	return locked
}

func also(keys ...string) *lock.AcquireOptions { return &lock.AcquireOptions{Also: keys} }

func TestWithLock(t *testing.T) {
	bubble(t, func(w *world) {
		locker := lock.New(w.st, &lock.Options{Owner: "alice", TTL: time.Minute})
		ran := false
		w.must(locker.WithLock(w.ctx, "b", also("a"), func(ctx context.Context, l *lock.Lease) error {
			ran = true
			time.Sleep(time.Hour)
			if ctx.Err() != nil || !w.locked("a") || !w.locked("b") || l.Token() == 0 {
				t.Error("not held during the work")
			}
			return nil
		}))
		if !ran || w.locked("a") || w.locked("b") {
			t.Error("ran", ran, "and left a lock")
		}
		why := errors.New("work failed")
		w.want(locker.WithLock(w.ctx, "a", nil, func(context.Context, *lock.Lease) error { return why }), why)
		if w.locked("a") {
			t.Error("not released after an error")
		}
		as[*lease.InvalidError](w, locker.WithLock(w.ctx, "", nil, func(context.Context, *lock.Lease) error { t.Error("ran"); return nil }))
	})
}

func TestWithLockReleasesOnPanic(t *testing.T) {
	bubble(t, func(w *world) {
		locker := lock.New(w.st, nil)
		func() {
			defer func() {
				if p := recover(); p != "oh no" {
					t.Errorf("recovered %v", p)
				}
			}()
			_ = locker.WithLock(w.ctx, "a", nil, func(context.Context, *lock.Lease) error { panic("oh no") })
		}()
		if w.locked("a") {
			t.Error("not released after a panic")
		}
	})
}

func TestWithLockTellsTheWorkOfALoss(t *testing.T) {
	bubble(t, func(w *world) {
		locker := lock.New(w.st, &lock.Options{Owner: "alice", TTL: time.Minute})
		why := errors.New("stopped")
		err := locker.WithLock(w.ctx, "a", nil, func(ctx context.Context, _ *lock.Lease) error {
			_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"a"}})
			w.must(err)
			_, err = lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}})
			w.must(err)
			<-ctx.Done()
			w.want(context.Cause(ctx), lock.ErrLost)
			return why
		})
		w.want(err, lock.ErrLost)
		w.want(err, why)
		_, err = locker.TryAcquire(w.ctx, "a", nil)
		if held := as[*lock.HeldError](w, err); held.Owner != "bob" {
			t.Error("a is held by", held.Owner)
		}
	})
}

func TestNestedWithLock(t *testing.T) {
	bubble(t, func(w *world) {
		locker := lock.New(w.st, &lock.Options{Owner: "alice"})
		other := lock.New(w.st, &lock.Options{Owner: "bob"})
		w.must(locker.WithLock(w.ctx, "a", nil, func(outer context.Context, _ *lock.Lease) error {
			err := locker.WithLock(outer, "a", also("b"), func(inner context.Context, _ *lock.Lease) error {
				return other.WithLock(inner, "a", also("b", "c"), func(context.Context, *lock.Lease) error { return nil })
			})
			if w.locked("b") || w.locked("c") || !w.locked("a") {
				t.Error("each level releases what it acquired, and only that")
			}
			// Without the context of the outer call it is someone else.
			_, held := locker.TryAcquire(w.ctx, "a", nil)
			as[*lock.HeldError](w, held)
			return err
		}))
	})
}

// An inner lease has a key of the outer one, with an older token, and its own.
func TestFenceOfSeveralKeys(t *testing.T) {
	bubble(t, func(w *world) {
		locker := lock.New(w.st, nil)
		err := locker.WithLock(w.ctx, "a", nil, func(ctx context.Context, _ *lock.Lease) error {
			return locker.WithLock(ctx, "b", also("a"), func(_ context.Context, l *lock.Lease) error {
				write := func(tx *store.Tx) error { return cmp.Or(l.Fence(tx), tx.Put("text/a", map[string]string{})) }
				_, err := w.st.Update(w.ctx, driver.Query{}, write)
				w.must(err)
				_, err = lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"a"}})
				w.must(err)
				_, err = w.st.Update(w.ctx, driver.Query{}, write)
				w.want(err, lock.ErrLost)
				return nil
			})
		})
		w.want(err, lock.ErrLost)
	})
}

func TestAcquireWaits(t *testing.T) {
	bubble(t, func(w *world) {
		one, two := lock.New(w.st, nil), lock.New(w.st, nil)
		l, err := one.Acquire(w.ctx, "a", nil)
		w.must(err)
		_, err = two.TryAcquire(w.ctx, "a", &lock.AcquireOptions{Wait: time.Hour})
		as[*lock.HeldError](w, err)
		for opt, want := range map[*lock.AcquireOptions]time.Duration{nil: 30 * time.Minute, {Wait: time.Second}: time.Second} {
			start := time.Now()
			_, err = two.Acquire(w.ctx, "a", opt)
			as[*lock.HeldError](w, err)
			if d := time.Since(start); d < want || d > want+time.Second {
				t.Errorf("waited %s, want %s", d, want)
			}
		}
		w.must(l.Release(w.ctx))
		if w.locked("a") {
			t.Error("still locked")
		}
	})
}

func TestEndOfTheContext(t *testing.T) {
	bubble(t, func(w *world) {
		locker := lock.New(w.st, nil)
		l, err := locker.Acquire(w.ctx, "a", &lock.AcquireOptions{Reason: "release 1.4"})
		w.must(err)
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		_, err = locker.Acquire(ctx, "a", nil)
		w.want(err, context.DeadlineExceeded)
		if held := as[*lock.HeldError](w, err); held.Reason != "release 1.4" || held.Waited != time.Minute {
			t.Errorf("%+v", held)
		}
		w.must(l.Release(w.ctx))
	})
}

// Where a heartbeat is a push, leases last longer: as those of the command do.
func TestTimesOfGit(t *testing.T) {
	remote := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", "--bare", remote).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for url, want := range map[string]time.Duration{"git:" + remote: time.Hour, "sqlite:" + filepath.Join(t.TempDir(), "a.db"): 5 * time.Minute} {
		st, err := store.Open(t.Context(), url, &store.OpenOptions{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		l, err := lock.New(st, nil).Acquire(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = lock.New(st, nil).TryAcquire(t.Context(), "a", nil)
		var held *lock.HeldError
		if !errors.As(err, &held) || held.ExpiresAt.Sub(held.AcquiredAt).Round(time.Minute) != want {
			t.Errorf("%s: %+v, want %s", url, held, want)
		}
		if err := errors.Join(l.Release(t.Context()), st.Close()); err != nil {
			t.Error(err)
		}
	}
}

// The context of a lease makes the waits under it a part of its work; those with
// contexts of their own are independent.
func TestDeadlock(t *testing.T) {
	for _, nested := range []bool{true, false} {
		bubble(t, func(w *world) {
			ctx, cancel := context.WithCancel(w.ctx)
			locker := lock.New(w.st, nil)
			var leases []*lock.Lease
			for _, key := range []string{"a", "b"} {
				l, err := locker.Acquire(ctx, key, nil)
				w.must(err)
				leases = append(leases, l)
			}
			ended := make(chan error, 2)
			var calls sync.WaitGroup
			for i, key := range []string{"b", "a"} {
				under := ctx
				if nested {
					under = leases[i].Context()
				}
				calls.Go(func() {
					_, err := locker.Acquire(under, key, nil)
					ended <- err
				})
				time.Sleep(time.Second)
			}
			synctest.Wait()
			if len(ended) == 1 != nested {
				w.Errorf("nested is %v, and %d of 2 left", nested, len(ended))
			} else if nested {
				as[*lock.DeadlockError](w, <-ended)
			}
			cancel()
			for _, l := range leases {
				w.must(l.Release(w.ctx))
			}
			calls.Wait() // they leave the queues, and may have to try twice
		})
	}
}

func TestPool(t *testing.T) {
	bubble(t, func(w *world) {
		var lockers []*lock.Locker
		for range 3 {
			lockers = append(lockers, lock.New(w.st, nil))
		}
		tests := &lock.AcquireOptions{Slots: 2}
		one, err := lockers[0].TryAcquire(w.ctx, "pool:tests", tests)
		w.must(err)
		two, err := lockers[1].TryAcquire(w.ctx, "pool:tests", tests)
		w.must(err)
		if one.Slots()[0] == two.Slots()[0] {
			t.Error("both have slot", one.Slots())
		}
		_, err = lockers[2].TryAcquire(w.ctx, "pool:tests", tests)
		if held := as[*lock.HeldError](w, err); held.Pool == nil || held.Pool.Used != 2 {
			t.Errorf("%+v", held)
		}
		_, err = lockers[2].TryAcquire(w.ctx, "pool:tests", &lock.AcquireOptions{Slots: 3})
		if e := as[*lock.PoolSizeError](w, err); e.Size != 2 || e.Slots != 3 {
			t.Errorf("%+v", e)
		}
		had := one.Slots()[0]
		w.must(one.Release(w.ctx))
		w.must(two.Release(w.ctx))
		for range 20 { // a locker comes back to its slot
			again, err := lockers[0].TryAcquire(w.ctx, "pool:tests", nil)
			w.must(err)
			if again.Slots()[0] != had {
				t.Errorf("slot %v, before %d", again.Slots(), had)
			}
			w.must(again.Release(w.ctx))
		}
		all, err := lockers[2].TryAcquire(w.ctx, "pool:tests", &lock.AcquireOptions{Take: lock.TakeAll})
		w.must(err)
		if len(all.Slots()) != 2 {
			t.Error(all.Slots())
		}
		w.must(all.Release(w.ctx))
	})
}

// Workers that come back get the slots that they had, so a pool costs as many reads
// and commits as a key for each worker, however many they are.
func TestPoolCostsAsMuchAsKeys(t *testing.T) {
	for _, workers := range []int{1, 4, 16} {
		keys := costOfPairs(t, workers, func(i int) string { return fmt.Sprint("key", i) })
		pool := costOfPairs(t, workers, func(int) string { return "pool:p" })
		pairs := int64(workers * pairsEach)
		t.Logf("%d workers, %d pairs: keys %+v, pool %+v", workers, pairs, keys, pool)
		// In the first round they draw slots, and some draw the same one. Each refusal costs a read.
		draws := int64(workers * workers / 2)
		if pool.Refused > keys.Refused+draws || pool.Reads > keys.Reads+2*draws || pool.Commits > keys.Commits+keys.Commits/20 {
			t.Errorf("%d workers: a pool costs %+v, keys %+v", workers, pool, keys)
		}
		if pool.Records > (lease.MaxSlots+4)*(pairs+draws)*2 {
			t.Errorf("%d workers: %d pairs read %d records", workers, pairs, pool.Records)
		}
	}
}

const pairsEach = 50

// slowCommits lets all read before one commits.
type slowCommits struct{ driver.Store }

func (d slowCommits) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	time.Sleep(drivertest.FarRead)
	return d.Store.Commit(ctx, b)
}

// costOfPairs is what workers cost that acquire and release at the same time, each
// with a Locker of its own.
func costOfPairs(t *testing.T, workers int, key func(i int) string) (cost drivertest.Counts) {
	synctest.Test(t, func(t *testing.T) {
		counted := drivertest.NewCounted(slowCommits{drivertest.NewFar(t, memstore.New(), nil)})
		st := store.New(counted)
		if _, err := lease.SetPool(t.Context(), st, lease.SetPoolRequest{Name: "p", Slots: workers, By: "me"}); err != nil {
			t.Fatal(err)
		}
		counted.Take()
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				l := lock.New(st, &lock.Options{Owner: fmt.Sprint("worker", i)})
				for range pairsEach {
					held, err := l.Acquire(t.Context(), key(i), nil)
					if err != nil {
						t.Error(err)
						return
					}
					if err := held.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		cost = counted.Take()
	})
	return cost
}
