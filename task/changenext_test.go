package task_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// doNext completes a task and returns what was claimed in its place, or nil.
func (w *world) doNext(owner string, token int64, id string) (*task.NextResult, error) {
	d := task.StatusRequest{Verb: task.Complete, Tasks: []string{id}, Owner: owner, Token: token}
	_, next, err := task.ChangeAndNext(w.ctx, w.st, d, task.NextRequest{Acquire: lease.AcquireRequest{Owner: owner}})
	return next, err
}

// rev is the revision that wrote a record last.
func (w *world) rev(key string) (rev int64) {
	w.Helper()
	w.must(w.st.View(w.ctx, driver.Query{Keys: []string{key}}, func(tx *store.Tx) (err error) {
		rev, err = tx.RevOf(key)
		return err
	}))
	return rev
}

func TestDoAndNextIsOneCommit(t *testing.T) {
	w := newWorld(t)
	w.add(in("", "a"), in("", "b"), in("", "c", "b"))
	w.must(w.section(task.SectionRequest{Name: "S", New: true, Priority: ptr(task.Low)}))
	w.must(w.section(task.SectionRequest{Name: "T", New: true, Priority: ptr(task.Low), On: []string{"S"}}))
	w.add(in("S", "s1"), in("S", "s2"), in("T", "t1"))
	last := w.claim("A", "a")
	done := "a"
	// b is ready; c becomes ready by b; s1 and s2 share an exclusive section; t1's opens with the last of S
	for _, id := range []string{"b", "c", "s1", "s2", "t1"} {
		next, err := w.doNext("A", last, done)
		w.must(err)
		if next == nil || next.Task.ID != id || next.Task.Description != w.show(id).Description {
			t.Fatalf("after %s came %+v, want %s", done, next, id)
		}
		w.status(done, task.Completed)
		if last = token(*next.Grant, id); w.rev("task/"+done) != last || w.rev("task/"+id) != last || w.rev("lock/"+id) != last {
			t.Errorf("%s and %s are not of one commit", done, id)
		}
		want := []string{id + " A"}
		if s := w.show(id).Section; s != "" {
			want = append(want, "section:"+s+" A")
		}
		w.holds(want...)
		done = id
	}
	next, err := w.doNext("A", last, done) // nothing is left
	w.must(err)
	if next != nil {
		t.Errorf("%+v", next)
	}
	w.status(done, task.Completed)
	w.holds()
	again, err := w.doNext("A", last, done) // the reply may have been lost
	w.must(err)
	if again != nil {
		t.Errorf("%+v", again)
	}
}

// What is refused claims nothing.
func TestDoAndNextRefused(t *testing.T) {
	w := newWorld(t)
	w.add(in("", "a"), in("", "b"), in("", "c"))
	old := w.claim("A", "a")
	w.breakKey("a")
	w.claim("B", "a")
	for name, try := range map[string]func() error{
		"old token": func() error { _, err := w.doNext("A", old, "a"); return err },
		"not yours": func() error { _, err := w.doNext("A", 0, "a"); return err },
		"no task":   func() error { _, err := w.doNext("A", 0, "z"); return err },
		"a wait": func() error {
			_, _, err := task.ChangeAndNext(w.ctx, w.st, task.StatusRequest{Verb: task.Complete, Tasks: []string{"b"}, Owner: "A"}, task.NextRequest{Wait: 1, Acquire: lease.AcquireRequest{Owner: "A"}})
			return err
		},
		"no section": func() error {
			_, _, err := task.ChangeAndNext(w.ctx, w.st, task.StatusRequest{Verb: task.Complete, Tasks: []string{"b"}, Owner: "A"}, task.NextRequest{Section: "none", Acquire: lease.AcquireRequest{Owner: "A"}})
			return err
		},
		"dry": func() error {
			_, next, err := task.ChangeAndNext(w.ctx, w.st, task.StatusRequest{Verb: task.Complete, Tasks: []string{"b"}, Owner: "A", DryRun: true}, task.NextRequest{Acquire: lease.AcquireRequest{Owner: "A"}})
			if err != nil || next == nil || next.Task.ID != "c" {
				t.Errorf("%+v, %v", next, err)
			}
			return errors.New("nothing was done")
		},
	} {
		w.unchanged(name, func() {
			if try() == nil {
				t.Errorf("%s: done", name)
			}
		})
	}
}

// Whoever waits for a section comes before the next task of whoever worked there.
func TestDoAndNextBehindAWaiter(t *testing.T) {
	bubble(t, func(w *world) {
		w.add(in("S", "s1"), in("S", "s2"), in("", "other"))
		last := w.claim("A", "s1")
		got := make(chan error, 1)
		go func() {
			_, err := w.tryAcquire(lease.AcquireRequest{Owner: "B", Keys: []string{"section:S"}, Wait: lease.MaxTTL})
			got <- err
		}()
		w.settle()
		next, err := w.doNext("A", last, "s1")
		w.must(err)
		if next == nil || next.Task.ID != "other" {
			t.Errorf("%+v", next)
		}
		w.must(<-got)
		w.must(w.release("B", "section:S"))
	})
}

// A request with an id gives the same task again, also after its first reply was lost.
func TestDoAndNextOnce(t *testing.T) {
	w := newWorld(t)
	w.add(in("", "a"), in("", "b"), in("", "c"))
	w.claim("A", "a")
	ask := func() (task.ChangeResult, *task.NextResult, error) {
		return task.ChangeAndNext(w.ctx, w.st, task.StatusRequest{Verb: task.Complete, Tasks: []string{"a"}, Owner: "A"}, task.NextRequest{Acquire: lease.AcquireRequest{Owner: "A", ID: "r1"}})
	}
	for i := range 3 {
		done, next, err := ask()
		w.must(err)
		if next.Task.ID != "b" || done.Tasks[0].Status != task.Completed || done.Repeated != (i > 0) {
			t.Errorf("%+v, %+v", done, next)
		}
	}
	w.status("c", task.Pending)
}

// Sixteen workers that only ever complete and go on do every task once.
func TestDoAndNextRace(t *testing.T) {
	const workers, n = 16, 64
	w := large(t)
	w.st = store.New(w.mem) // under so much traffic a look may read often
	w.must(w.section(task.SectionRequest{Name: "shared", New: true, Shared: ptr(true)}))
	for i := range n {
		nt := task.New{ID: fmt.Sprint("x", i), Title: "x", Section: []string{"", "shared", "S1", "S2"}[i%4]}
		if i >= n/2 && i%3 == 0 {
			nt.DependsOn = []string{fmt.Sprint("x", i-n/2)}
		}
		w.add(nt)
	}
	var mu sync.Mutex
	got := map[string]string{}
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			owner := fmt.Sprint("W", i)
			for {
				id, err := w.next(owner)
				if errors.Is(err, task.ErrNothingReady) {
					if len(w.list(task.ListRequest{Status: []task.Status{task.Pending, task.InProgress}})) == 0 {
						return
					}
					continue
				}
				for err == nil && id != "" {
					mu.Lock()
					if got[id] != "" {
						t.Errorf("%s went to %s and %s", id, got[id], owner)
					}
					got[id] = owner
					mu.Unlock()
					var next *task.NextResult
					if next, err = w.doNext(owner, 0, id); next == nil {
						break
					}
					id = next.Task.ID
				}
				if err != nil {
					t.Error(owner, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if len(got) != n {
		t.Errorf("%d of %d done", len(got), n)
	}
	w.holds()
}

// A transaction can see what it has written, as if it were committed.
func TestScanWritten(t *testing.T) {
	w := newWorld(t)
	put := func(tx *store.Tx, keys ...string) {
		for _, k := range keys {
			w.must(tx.Put("probe/"+k, map[string]any{"id": k}))
		}
	}
	_, err := w.mem.Store.Commit(w.ctx, driver.Batch{Writes: []driver.Write{{Key: "probe/b", Value: []byte("{}")}, {Key: "probe/d", Value: []byte("{}")}, {Key: "probe/f", Value: []byte("{}")}}})
	w.must(err)
	for limit, want := range map[int]string{0: "a d e", 1: "a", 2: "a d", 3: "a d e", 9: "a d e"} {
		w.must(w.st.View(w.ctx, driver.Query{}, func(tx *store.Tx) error {
			put(tx, "a", "e", "f")
			tx.Delete("probe/b")
			tx.Delete("probe/f")
			recs, err := tx.ScanWritten("probe/", limit)
			if err != nil {
				return err
			}
			var got []string
			for _, r := range recs {
				got = append(got, strings.TrimPrefix(r.Key, "probe/"))
			}
			if !slices.Equal(got, strings.Fields(want)) {
				t.Errorf("limit %d: %q, want %q", limit, got, want)
			}
			return nil
		}))
	}
}
