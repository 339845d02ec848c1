package locktest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

const (
	busy      = 16     // goroutines
	kept      = 10_000 // events that history keeps, about
	slack     = 2_500  // and this is about
	fewPairs  = 1_500  // of acquire and release
	rounds    = 10     // with a few pairs more, if too many events stay
	manyPairs = 25_000
)

// HistoryIsBounded lets goroutines acquire and release, each a key of its own,
// and requires that history keeps about as many events as it should. The store
// begins with a history that is full, and a jump of its revision follows; with
// TASKLOCK_TORTURE it begins empty, and has to find its bound by itself.
func HistoryIsBounded(t *testing.T, st *store.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	pairs := manyPairs
	if os.Getenv("TASKLOCK_TORTURE") == "" {
		pairs = fewPairs
		full(ctx, t, st)
	}
	took := load(ctx, t, st, pairs)
	n := events(ctx, t, st)
	t.Logf("%d events stay after %d more; a pair took %v", n, 2*pairs, took)
	for range rounds { // on a busy machine a commit that deletes gives up, and later ones make up for it
		if n <= kept+slack || t.Failed() {
			break
		}
		load(ctx, t, st, fewPairs/5)
		n = events(ctx, t, st)
		t.Logf("%d events stay after %d more", n, 2*fewPairs/5)
	}
	if n < kept-slack || n > kept+slack {
		t.Errorf("%d events stay", n)
	}
	began := time.Now()
	out, err := lease.Cleanup(ctx, st, lease.CleanupRequest{By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cleanup of %d took %v", out.Pruned, time.Since(began))
	if n := events(ctx, t, st); n > kept {
		t.Errorf("%d events stay after cleanup", n)
	}
}

// full writes a history that is over its bound, with its marks, and lifts the
// revision.
func full(ctx context.Context, t *testing.T, st *store.Store) {
	t.Helper()
	var revs []int64
	for i := range 12 {
		rev, err := st.Update(ctx, driver.Query{}, func(tx *store.Tx) error {
			for j := range kept / 10 {
				key := fmt.Sprintf("event/20200101T%06d.000000000Z-%06d", i, j)
				if err := tx.Put(key, lease.Event{Event: "released", Owner: "past"}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		revs = append(revs, rev)
	}
	type mark struct {
		Rev    int64 `json:"rev"`
		Events int   `json:"events"`
	}
	var marks []mark
	for _, rev := range revs {
		marks = append(marks, mark{rev, kept / 10})
	}
	_, err := st.Update(ctx, driver.Query{}, func(tx *store.Tx) error {
		tx.Floor(driver.Lift(tx.Rev()))
		return tx.Put("history/marks", map[string]any{"marks": marks})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// load makes pairs of acquire and release, and returns the mean time of one.
func load(ctx context.Context, t *testing.T, st *store.Store, pairs int) time.Duration {
	t.Helper()
	var wg sync.WaitGroup
	var left, spent atomic.Int64
	left.Store(int64(pairs))
	for i := range busy {
		key, owner := fmt.Sprintf("key-%d", i), fmt.Sprintf("w%d", i)
		wg.Go(func() {
			for left.Add(-1) >= 0 && !t.Failed() {
				began := time.Now()
				if _, err := lease.Acquire(ctx, st, lease.AcquireRequest{Owner: owner, Keys: []string{key}}); err != nil {
					t.Error(err)
				}
				if _, err := lease.Release(ctx, st, lease.ReleaseRequest{Owner: owner, Keys: []string{key}}); err != nil {
					t.Error(err)
				}
				spent.Add(int64(time.Since(began)))
			}
		})
	}
	wg.Wait()
	return time.Duration(spent.Load() / int64(pairs))
}

func events(ctx context.Context, t *testing.T, st *store.Store) (n int) {
	t.Helper()
	err := st.View(ctx, driver.Query{}, func(tx *store.Tx) error {
		recs, err := tx.Scan("event/", 0)
		n = len(recs)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
