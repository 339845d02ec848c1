package task_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

// counted is a world of many tasks whose store counts what is asked of it.
func counted(t *testing.T, tasks int) (*world, *drivertest.Counted) {
	t.Helper()
	w := &world{T: t, ctx: t.Context()}
	count := drivertest.NewCounted(memstore.New())
	w.st = store.New(drivertest.NewStrict(t, count))
	for done := 0; done < tasks; done += 500 {
		w.add(many(min(500, tasks-done), func(i int) task.New { return task.New{ID: fmt.Sprint("n", done+i), Title: fmt.Sprint("task ", done+i)} })...)
	}
	return w, count
}

// A claim costs the same however many tasks are in progress.
func TestNextDoesNotWalkTheTasksInProgress(t *testing.T) {
	w, count := counted(t, 1500)
	busy := 0
	pair := func() (next, complete drivertest.Counts) {
		count.Take()
		got, err := task.Next(w.ctx, w.st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: "worker"}})
		w.must(err)
		next = count.Take()
		w.must(w.do(task.Complete, "worker", got.Grant.Token, got.Task.ID))
		return next, count.Take()
	}
	for range 30 { // the names of the first ones of a batch have their own guards
		pair()
	}
	first, done := pair()
	t.Logf("none in progress: next %+v, complete %+v", first, done)
	if first.Reads > 2 {
		t.Errorf("a claim reads %d times, want the index and the task", first.Reads)
	}
	for _, n := range []int{32, 128, 1024} {
		for ; busy < n; busy++ {
			_, err := task.Next(w.ctx, w.st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: fmt.Sprint("busy", busy), TTL: time.Hour}})
			w.must(err)
		}
		next, done := pair()
		t.Logf("%d in progress: next %+v, complete %+v", n, next, done)
		if next.Reads > first.Reads+1 || next.Records > 3*first.Records {
			t.Errorf("%d in progress: %+v for a claim, %+v with none", n, next, first)
		}
	}
}

// A completion reads what it needs together: the task, its lock and, unless the caller
// names the lease, once more.
func TestCompletionReadsLittle(t *testing.T) {
	w, count := counted(t, 20)
	for named, most := range map[bool]int64{true: 1, false: 2} {
		got, err := task.Next(w.ctx, w.st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: "worker"}})
		w.must(err)
		r := task.StatusRequest{Verb: task.Complete, Tasks: []string{got.Task.ID}, Owner: "worker", Token: got.Grant.Token}
		if named {
			r.Lease = got.Grant.LeaseID
		}
		count.Take()
		_, err = task.ChangeStatus(w.ctx, w.st, r)
		w.must(err)
		if did := count.Take(); did.Reads > most {
			t.Errorf("a completion makes %d reads, want at most %d (the caller names the lease: %v)", did.Reads, most, named)
		}
	}
}
