//go:build linux || darwin

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

func setPool(t *testing.T, st *store.Store, slots int) {
	t.Helper()
	if _, err := lease.SetPool(t.Context(), st, lease.SetPoolRequest{Name: "tests", Slots: slots, By: "test"}); err != nil {
		t.Fatal(err)
	}
}

func poolOf(t *testing.T, st *store.Store) lease.PoolResult {
	t.Helper()
	p, err := lease.ShowPool(t.Context(), st, "tests")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func holdSlot(t *testing.T, st *store.Store) *lease.Lease {
	t.Helper()
	l, err := lease.Hold(t.Context(), st, lease.AcquireRequest{Keys: []string{"pool:tests"}, Owner: "other"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestWorkInPool: runners share a slot. Never two commands run at once, all tasks are
// done, in exclusive sections too, and nothing is left behind.
func TestWorkInPool(t *testing.T) {
	var list []task.New
	for i := range 4 {
		for _, section := range []string{"", "A", "B"} {
			list = append(list, task.New{Title: fmt.Sprint("t", section, i), Section: section})
		}
	}
	st := queue(t, list...)
	setPool(t, st, 1)
	dir := t.TempDir()
	script := `echo "$TASKLOCK_SLOT" >> slots; mkdir in || echo two >> bad; sleep 0.02; rmdir in`
	var work sync.WaitGroup
	var j journal
	for _, name := range []string{"R1", "R2", "R3"} {
		work.Go(func() {
			sum, err := worker.Work(t.Context(), st, worker.Options{
				Owner: "me", Name: name, Pool: "tests", Command: []string{"sh", "-c", script}, Dir: dir, Log: j.log,
			})
			if err != nil || sum.Refused+sum.Failed > 0 {
				t.Error(name, sum, err)
			}
		})
	}
	work.Wait()
	if bad, err := os.ReadFile(filepath.Join(dir, "bad")); err == nil {
		t.Errorf("two commands at once: %s", bad)
	}
	slots, _ := os.ReadFile(filepath.Join(dir, "slots"))
	if want := strings.Repeat("1\n", len(list)); string(slots) != want {
		t.Errorf("slots: %q\n%s", slots, strings.Join(j.lines, "\n"))
	}
	out, err := task.List(t.Context(), st, task.ListRequest{Status: []task.Status{task.Completed}})
	if err != nil || len(out.Tasks) != len(list) {
		t.Errorf("%d done, %v", len(out.Tasks), err)
	}
	locks, err := lease.List(t.Context(), st, lease.ListRequest{Owner: "me"})
	if p := poolOf(t, st); err != nil || len(locks.Locks)+p.Used+p.Waiters > 0 {
		t.Errorf("left behind: %v, %+v, %v", locks.Locks, p, err)
	}
}

// TestWorkWaitsForSlot: a runner is in the queue of its pool while a task is ready,
// and leaves it when none is.
func TestWorkWaitsForSlot(t *testing.T) {
	st := queue(t, task.New{Title: "a", Section: "A"}, task.New{Title: "b", Section: "A"})
	setPool(t, st, 1)
	slot := holdSlot(t, st)
	ctx, cancel := context.WithCancel(t.Context())
	var j journal
	done := make(chan worker.Summary)
	go func() {
		sum, err := worker.Work(ctx, st, worker.Options{Owner: "me", Name: "R", Pool: "tests", Command: []string{"true"}, Wait: true, Log: j.log})
		if err != nil {
			t.Error(err)
		}
		done <- sum
	}()
	waiters := func(n int) func() bool { return func() bool { return poolOf(t, st).Waiters == n } }
	patience.Until(t, "it waits for a slot", waiters(1))
	if c, err := lease.Check(t.Context(), st, lease.CheckRequest{Key: "section:A"}); err != nil || c.Locked {
		t.Errorf("it keeps the section while it waits: %v", err)
	}
	for _, id := range []string{"t1", "t2"} {
		if _, err := task.ChangeStatus(t.Context(), st, task.StatusRequest{Verb: task.Skip, Tasks: []string{id}, Owner: "me", Reason: "not needed"}); err != nil {
			t.Fatal(err)
		}
	}
	patience.Until(t, "it leaves the queue", waiters(0))
	patience.Until(t, "it is idle", func() bool { return j.has("R: Going idle") })
	if _, err := task.Add(t.Context(), st, task.AddRequest{Tasks: []task.New{{Title: "c", Section: "A"}}, By: "test"}); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "it waits again", waiters(1))
	if err := slot.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "it has done c", func() bool { return statusOf(t, st, "t3").Status == task.Completed })
	patience.Until(t, "the slot is free", func() bool { p := poolOf(t, st); return p.Used+p.Waiters == 0 })
	cancel()
	if sum := <-done; sum.Completed != 1 {
		t.Errorf("%+v\n%s", sum, strings.Join(j.lines, "\n"))
	}
}

// TestWorkGivesSlotBack: the slot is free when the task was taken away, too.
func TestWorkGivesSlotBack(t *testing.T) {
	st := queue(t, task.New{Title: "a"})
	setPool(t, st, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := worker.Work(ctx, st, worker.Options{Owner: "me", Name: "R", Pool: "pool:tests", Command: []string{"sleep", "600"}, Wait: true})
		done <- err
	}()
	patience.Until(t, "it works", func() bool { return statusOf(t, st, "t1").Status == task.InProgress })
	if p := poolOf(t, st); p.Used != 1 {
		t.Errorf("%d slots used", p.Used)
	}
	if _, err := task.ChangeStatus(t.Context(), st, task.StatusRequest{Verb: task.Skip, Tasks: []string{"t1"}, Owner: "me", Reason: "not needed"}); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "the slot is free", func() bool { return poolOf(t, st).Used == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestWorkNeedsPool: a pool that does not exist, or no longer, ends the runner, and
// no task is claimed.
func TestWorkNeedsPool(t *testing.T) {
	st := queue(t, task.New{Title: "a"})
	o := worker.Options{Owner: "me", Name: "R", Pool: "tests", Command: []string{"true"}, Wait: true}
	var none *lease.PoolSizeError
	if _, err := worker.Work(t.Context(), st, o); !errors.As(err, &none) || none.Pool != "tests" || none.Size != 0 {
		t.Errorf("no pool: %v", err)
	}
	setPool(t, st, 1)
	var j journal
	o.Log = j.log
	done := make(chan error)
	go func() { _, err := worker.Work(t.Context(), st, o); done <- err }()
	patience.Until(t, "it is idle", func() bool { return j.has("R: Going idle") })
	if err := lease.RemovePool(t.Context(), st, lease.RemovePoolRequest{Name: "tests", By: "test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := task.Add(t.Context(), st, task.AddRequest{Tasks: []task.New{{Title: "b"}}, By: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.As(err, &none) || none.Take != 0 {
		t.Errorf("removed: %v", err)
	}
	if i := statusOf(t, st, "t2"); i.Status != task.Pending || i.Attempts != 0 {
		t.Errorf("b is %s after %d attempts", i.Status, i.Attempts)
	}
}

// watched notes which locks each commit takes and ends.
type watched struct {
	driver.Store
	mu          sync.Mutex
	taken, ends []string // each commit's, in order and with spaces between them
}

func (w *watched) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	var taken, ends []string
	for _, x := range b.Writes {
		key, ok := strings.CutPrefix(x.Key, "lock/")
		switch {
		case !ok:
		case x.Value == nil:
			ends = append(ends, key)
		default:
			taken = append(taken, key)
		}
	}
	rev, err := w.Store.Commit(ctx, b)
	w.mu.Lock()
	defer w.mu.Unlock()
	for list, keys := range map[*[]string][]string{&w.taken: taken, &w.ends: ends} {
		if slices.Sort(keys); err == nil && len(keys) > 0 {
			*list = append(*list, strings.Join(keys, " "))
		}
	}
	return rev, err
}

// TestSlotEndsWithTask: a free slot is taken in the commit that claims the task, and
// released in the one that ends it, also if the runner waited for the slot.
func TestSlotEndsWithTask(t *testing.T) {
	d := &watched{Store: memstore.New()}
	st := store.New(d)
	setPool(t, st, 1)
	work := func(title, id string, held *lease.Lease) {
		t.Helper()
		if _, err := task.Add(t.Context(), st, task.AddRequest{Tasks: []task.New{{Title: title}}, By: "test"}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := worker.Work(t.Context(), st, worker.Options{Owner: "me", Name: "R", Pool: "tests", Command: []string{"true"}})
			done <- err
		}()
		if held != nil {
			patience.Until(t, "it waits for a slot", func() bool { return poolOf(t, st).Waiters == 1 })
			if err := held.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-done; err != nil || statusOf(t, st, id).Status != task.Completed {
			t.Fatalf("%s: %v", title, err)
		}
	}
	work("free", "t1", nil)
	work("waited for", "t2", holdSlot(t, st))
	if !slices.Contains(d.taken, "pool:tests#1 t1") {
		t.Errorf("the slot was not taken with the task: %q", d.taken)
	}
	for _, want := range []string{"pool:tests#1 t1", "pool:tests#1 t2"} {
		if !slices.Contains(d.ends, want) {
			t.Errorf("no commit has ended %q: %q", want, d.ends)
		}
	}
}

// TestWorkDoesNotJump: a runner does not pass one who waits for all of the pool, even if
// a slot is free.
func TestWorkDoesNotJump(t *testing.T) {
	st := queue(t, task.New{Title: "a"})
	setPool(t, st, 2)
	slot := holdSlot(t, st)
	all := make(chan *lease.Lease, 1)
	go func() {
		l, err := lease.Hold(t.Context(), st, lease.AcquireRequest{Keys: []string{"pool:tests"}, Owner: "all", Take: lease.TakeAll, Wait: time.Hour})
		if err != nil {
			t.Error(err)
		}
		all <- l
	}()
	patience.Until(t, "the one before waits", func() bool { return poolOf(t, st).Waiters == 1 })
	done := make(chan error, 1)
	go func() {
		_, err := worker.Work(t.Context(), st, worker.Options{Owner: "me", Name: "R", Pool: "tests", Command: []string{"true"}})
		done <- err
	}()
	ended := func() bool { return statusOf(t, st, "t1").Status == task.Completed }
	patience.Until(t, "the runner waits", func() bool { return poolOf(t, st).Waiters == 2 || ended() })
	if ended() {
		t.Error("it has not waited")
	}
	if err := slot.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := (<-all).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || !ended() {
		t.Errorf("%v, %+v", err, statusOf(t, st, "t1"))
	}
}
