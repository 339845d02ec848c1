package gitstore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

func torture() bool { return long.Asked() }

// rawPush returns what git alone does for one push: the measure of everything.
func rawPush(t testing.TB) func() time.Duration {
	t.Helper()
	remote := newRemote(t)
	dir, n := filepath.Join(t.TempDir(), "clone"), 0
	git(t, "", "clone", "--quiet", remote, dir)
	return func() time.Duration {
		n++
		write(t, filepath.Join(dir, "file"), fmt.Sprint(n))
		git(t, dir, "add", "file")
		git(t, dir, "commit", "--quiet", "-m", "x")
		start := time.Now()
		git(t, dir, "push", "--quiet", "origin", "HEAD:refs/heads/x")
		return time.Since(start)
	}
}

func median(n int, f func() time.Duration) time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = f()
	}
	slices.Sort(all)
	return all[n/2]
}

// clones opens a remote n times, each as a machine of its own.
func clones(t testing.TB, remote string, n int) []*gitstore.Store {
	list := make([]*gitstore.Store, n)
	for i := range list {
		list[i] = open(t, remote)
	}
	return list
}

// at once runs f for every store at the same time.
func atOnce(stores []*gitstore.Store, f func(i int, s *gitstore.Store)) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() { f(i, s) })
	}
	wg.Wait()
	return time.Since(start)
}

// Different keys never stand in each other's way, however many push at once.
func TestClonesOnDifferentKeys(t *testing.T) {
	long.NotShort(t)
	for _, n := range []int{16, 32} {
		stores := clones(t, newRemote(t), n)
		var revs sync.Map
		took := atOnce(stores, func(i int, s *gitstore.Store) {
			key := fmt.Sprintf("lock/task-%d", i)
			rev, err := s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: key}}, Writes: put(key, `{}`).Writes})
			if err != nil {
				t.Errorf("clone %d: %v", i, err)
			}
			if _, taken := revs.LoadOrStore(rev, i); taken {
				t.Errorf("revision %d was given out twice", rev)
			}
		})
		raw := median(5, rawPush(t))
		t.Logf("%d clones lock %d tasks in %v: %.1f pushes of %v each", n, n, took, took.Seconds()/raw.Seconds(), raw)
		snap, err := stores[0].Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "lock/"}}})
		if err != nil || len(snap.Records) != n {
			t.Errorf("%d locks of %d, %v", len(snap.Records), n, err)
		}
	}
}

func TestClonesOnOneKey(t *testing.T) {
	stores := clones(t, newRemote(t), 16)
	rounds := 1
	if torture() {
		rounds = 30
	}
	for r := range rounds {
		key := fmt.Sprintf("lock/%d", r)
		var winners atomic.Int64
		took := atOnce(stores, func(i int, s *gitstore.Store) {
			// Everybody writes the same: only the commit itself tells them apart.
			_, err := s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: key}}, Writes: put(key, `{}`).Writes})
			switch {
			case err == nil:
				winners.Add(1)
			case !errors.Is(err, driver.ErrConflict):
				t.Errorf("clone %d: %v", i, err)
			}
		})
		if n := winners.Load(); n != 1 {
			t.Fatalf("%d of 16 won", n)
		}
		t.Logf("16 clones, one task: %v", took)
	}
}

// Two who make the branch at the same time use one.
func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	stores := make([]*gitstore.Store, 6)
	atOnce(stores, func(i int, _ *gitstore.Store) {
		s, err := tryOpen(t, remote)
		if err != nil {
			t.Error(err)
			return
		}
		stores[i] = s
		commit(t, s, put(fmt.Sprintf("lock/%d", i), `{}`))
	})
	snap, err := open(t, remote).Read(t.Context(), driver.Query{Ranges: []driver.Range{{}}})
	if err != nil || len(snap.Records) != len(stores) {
		t.Errorf("%d records, %v", len(snap.Records), err)
	}
	if n := git(t, remote, "rev-list", "--count", "--max-parents=0", "tasklock"); n != "1" {
		t.Errorf("%s beginnings", n)
	}
}

// The price of a lock beside that of a push, in one run.
func TestPairBesideRawPush(t *testing.T) {
	long.NotShort(t)
	s := open(t, newRemote(t))
	pair := func(i int) {
		value := []byte(`{"key":"a","lease":"ci/1","owner":"ci","since":"2026-01-02T03:04:05Z"}`)
		event := fmt.Sprintf("event/2026-01-02T03:04:05.%09dZ", i)
		rev := get(t, s, "lock/a").Rev
		rev = commit(t, s, driver.Batch{Guards: []driver.Guard{{Key: "lock/a", Rev: rev}}, Writes: []driver.Write{
			{Key: "lock/a", Value: value}, {Key: "lease/ci/1", Value: value}, {Key: event, Value: value},
		}})
		get(t, s, "lock/a")
		commit(t, s, driver.Batch{Guards: []driver.Guard{{Key: "lock/a", Rev: rev}}, Writes: []driver.Write{
			{Key: "lock/a"}, {Key: "lease/ci/1"}, {Key: event + "r", Value: value},
		}})
	}
	pair(0)
	push, n := rawPush(t), 0
	push()
	var raws []time.Duration
	took := median(7, func() time.Duration { // in turns, so that both see the same machine
		raws = append(raws, push())
		n++
		start := time.Now()
		pair(n)
		return time.Since(start)
	})
	slices.Sort(raws)
	raw := raws[len(raws)/2]
	t.Logf("acquire and release (2 reads, 2 commits): %v, %.2f of one raw push (%v)", took, took.Seconds()/raw.Seconds(), raw)
}

// Heartbeats of one process share a push.
func TestCommitsGoTogether(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	s := open(t, remote)
	const n = 40
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { commit(t, s, put(fmt.Sprintf("lease/%d", i), `{}`)) })
	}
	wg.Wait()
	commits := git(t, remote, "rev-list", "--count", "tasklock")
	if len(commits) > 1 {
		t.Errorf("%s commits on the branch for %d heartbeats", commits, n)
	}
	if rev := get(t, s, "lease/0"); rev.Rev == 0 {
		t.Error("lost")
	}
}

// Somebody else keeps the branch moving, half of the time: two who do nothing but
// push could keep a third out for as long as they like.
func TestFalseConflicts(t *testing.T) {
	t.Parallel()
	remote := newRemote(t)
	s, busy := open(t, remote), open(t, remote)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			began := time.Now()
			_, _ = busy.Commit(ctx, put("lock/other", fmt.Sprintf(`{"n":%d}`, i)))
			select {
			case <-time.After(time.Since(began)):
			case <-ctx.Done():
			}
		}
	})
	rev := int64(0)
	for range 5 {
		rev = commit(t, s, driver.Batch{Guards: []driver.Guard{{Key: "lock/mine", Rev: rev}}, Writes: put("lock/mine", `{}`).Writes})
	}
	stop()
	wg.Wait()
}
