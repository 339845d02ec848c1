package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

var ctx = context.Background()

func addTasks(t *testing.T, st *store.Store, list ...task.New) []task.Task {
	t.Helper()
	out, err := task.Add(ctx, st, task.AddRequest{Tasks: list, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return out.Tasks
}

func claim(st *store.Store, owner, id string) (task.ClaimResult, error) {
	return task.ClaimTasks(ctx, st, task.ClaimRequest{Tasks: []string{id}, Acquire: lease.AcquireRequest{Owner: owner}})
}

func next(st *store.Store, owner string) (task.NextResult, error) {
	return task.Next(ctx, st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: owner}})
}

func do(st *store.Store, verb task.Verb, owner, id string, token int64) error {
	_, err := task.ChangeStatus(ctx, st, task.StatusRequest{Verb: verb, Tasks: []string{id}, Owner: owner, Token: token})
	return err
}

// TestTwoRunnersSameSection is the scenario of that name, line by line.
func TestTwoRunnersSameSection(t *testing.T) {
	st := store.New(memstore.New())
	addTasks(t, st, task.New{Title: "Task 1", Section: "Backend"}, task.New{Title: "Task 2", Section: "Backend"})

	// A keeps the section while it works there.
	section, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{"section:Backend"}, Owner: "A"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := next(st, "A")
	if err != nil || first.Task.Title != "Task 1" {
		t.Fatalf("A got %v, %v", first.Task, err)
	}
	// B wants Task 2: it has no lock, but its section is A's.
	var held *lease.HeldError
	if _, err := claim(st, "B", "Task 2"); !errors.As(err, &held) || held.Key != "section:Backend" || held.Owner != "A" {
		t.Fatalf("B: %v", err)
	}
	if _, err := next(st, "B"); !errors.Is(err, task.ErrNothingReady) {
		t.Fatalf("B: %v", err)
	}
	if err := do(st, task.Complete, "A", "t1", first.Grant.Token); err != nil {
		t.Fatal(err)
	}
	second, err := next(st, "A")
	if err != nil || second.Task.Title != "Task 2" {
		t.Fatalf("A got %v, %v", second.Task, err)
	}
	if _, err := claim(st, "B", "Task 2"); !errors.As(err, &held) {
		t.Fatalf("B: %v", err)
	}
	// The section cannot be released while a task in it is held.
	var used *lease.InUseError
	if _, err := lease.Release(ctx, st, lease.ReleaseRequest{Owner: "A", Keys: []string{"section:Backend"}}); !errors.As(err, &used) {
		t.Fatalf("release of the section: %v", err)
	}
	if err := do(st, task.Complete, "A", "t2", second.Grant.Token); err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Release(ctx, st, lease.ReleaseRequest{Owner: "A", Lease: section.LeaseID}); err != nil {
		t.Fatal(err)
	}
	if _, err := next(st, "B"); !errors.Is(err, task.ErrNothingReady) {
		t.Fatalf("B: %v", err)
	}
	if l, _ := lease.List(ctx, st, lease.ListRequest{}); len(l.Locks) != 0 {
		t.Fatalf("left: %+v", l.Locks)
	}
}

// TestSectionComesAndGoesWithTheTask: a claim without the section takes it and
// releases it with the last task.
func TestSectionComesAndGoesWithTheTask(t *testing.T) {
	st := store.New(memstore.New())
	addTasks(t, st, task.New{Title: "one", Section: "S"}, task.New{Title: "two", Section: "S"})
	a, err := claim(st, "A", "t1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := claim(st, "A", "t2")
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Grant.Keys) != 2 || len(b.Grant.Keys) != 2 || !b.Grant.Keys[0].Reentrant {
		t.Fatalf("%+v %+v", a.Grant, b.Grant)
	}
	if err := do(st, task.Complete, "A", "t1", a.Grant.Keys[1].Token); err != nil {
		t.Fatal(err)
	}
	if c, _ := lease.Check(ctx, st, lease.CheckRequest{Key: "section:S"}); !c.Locked {
		t.Fatal("section was released while t2 is held")
	}
	// Whoever loses the section loses the tasks in it.
	if _, err := lease.Break(ctx, st, lease.BreakRequest{Keys: []string{"section:S"}, By: "admin", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := do(st, task.Complete, "A", "t2", b.Grant.Keys[1].Token); !errors.Is(err, lease.ErrLost) {
		t.Fatalf("complete after the section was broken: %v", err)
	}
	i, err := task.Show(ctx, st, "two")
	if err != nil || i.Status != task.Pending {
		t.Fatalf("%+v %v", i, err)
	}
	if _, err := claim(st, "B", "t2"); err != nil {
		t.Fatal(err)
	}
	if err := do(st, task.Unclaim, "B", "t2", 0); err != nil {
		t.Fatal(err)
	}
	if l, _ := lease.List(ctx, st, lease.ListRequest{}); len(l.Locks) != 0 {
		t.Fatalf("left: %+v", l.Locks)
	}
}

func TestLifeOfATask(t *testing.T) {
	st := store.New(memstore.New())
	addTasks(t, st, task.New{Title: "build"}, task.New{Title: "deploy", DependsOn: []string{"build"}, Priority: task.High})
	n, err := next(st, "A")
	if err != nil || n.Task.ID != "t1" {
		t.Fatalf("%+v %v", n, err)
	}
	var state *task.StateError
	if _, err := claim(st, "B", "deploy"); !errors.As(err, &state) {
		t.Fatalf("claim before its dependency: %v", err)
	}
	if err := do(st, task.Complete, "B", "t1", 0); err == nil {
		t.Fatal("B completed what A holds")
	}
	for range 2 { // the second time is a repetition
		if err := do(st, task.Complete, "A", "t1", n.Grant.Token); err != nil {
			t.Fatal(err)
		}
	}
	if n, err = next(st, "B"); err != nil || n.Task.ID != "t2" {
		t.Fatalf("%+v %v", n, err)
	}
	var busy *task.BusyError
	if _, err := task.ResetTasks(ctx, st, task.ResetRequest{Tasks: []string{"build"}, Cascade: true}); !errors.As(err, &busy) {
		t.Fatalf("reset of what B holds: %v", err)
	}
	out, err := task.ResetTasks(ctx, st, task.ResetRequest{Tasks: []string{"build"}, Cascade: true, Force: true, By: "admin"})
	if err != nil || len(out.Tasks) != 2 {
		t.Fatalf("%+v %v", out, err)
	}
	if err := do(st, task.Complete, "B", "t2", n.Grant.Token); !errors.Is(err, lease.ErrLost) {
		t.Fatalf("complete after the reset: %v", err)
	}
	if _, err := claim(st, "B", "deploy"); !errors.As(err, &state) {
		t.Fatalf("claim before its dependency: %v", err)
	}
	var cycle *task.CycleError
	if _, err := task.Depends(ctx, st, task.DependsRequest{Task: "build", On: []string{"deploy"}}); !errors.As(err, &cycle) {
		t.Fatalf("cycle: %v", err)
	}
}

func TestNextIsIdempotent(t *testing.T) {
	st := store.New(memstore.New())
	addTasks(t, st, task.New{Title: "one"}, task.New{Title: "two"})
	ask := func() task.NextResult {
		n, err := task.Next(ctx, st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: "A", ID: "r1", TTL: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if a, b := ask(), ask(); a.Task.ID != b.Task.ID || a.Grant.Token != b.Grant.Token {
		t.Fatalf("%+v\n%+v", a, b)
	}
}
