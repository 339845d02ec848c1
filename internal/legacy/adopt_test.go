package legacy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

// theirs is a task of another system.
func theirs(id, title string, status task.Status) Task {
	return Task{Past: task.Past{New: task.New{ID: id, Title: title}, Status: status}, where: id + ".md"}
}

func TestAdopt(t *testing.T) {
	st := store.New(memstore.New())
	src := Source{Expired: 1, Sections: []Section{
		{Name: "Core"}, {Name: "Docs", Priority: 100, DependsOn: []string{"Core"}}, {Name: "Loop", DependsOn: []string{"Loop"}},
	}}
	for _, x := range []task.Past{
		{New: task.New{ID: "c", Title: "third", DependsOn: []string{"b", "gone"}}},
		{New: task.New{ID: "a", Title: "first", Section: "Core"}, Status: task.InProgress},
		{New: task.New{ID: "b", Title: "second", DependsOn: []string{"a"}}, Status: task.Pending},
		{New: task.New{ID: "x", Title: "cycle", DependsOn: []string{"y"}}},
		{New: task.New{ID: "y", Title: "cycle", DependsOn: []string{"x"}}},
		{New: task.New{ID: "l", Title: "labels", Labels: []string{"a,b"}}},
	} {
		src.addTask(Task{Past: x, where: x.ID + ".md"})
	}
	for i := range 600 {
		src.addTask(theirs(fmt.Sprintf("many-%d", i), "many", ""))
	}
	src.addLock(Lock{Key: "a", Owner: "alice", Since: now, where: "a.lock"}, now)
	src.addLock(Lock{Key: "section:Docs", Owner: "bob", Until: now.Add(time.Minute), where: "d.lock"}, now)
	src.addLock(Lock{Key: "elsewhere", Owner: "bob", Until: now.Add(time.Minute), Worktree: "/w", where: "e.lock"}, now)

	r := AdoptRequest{Source: src, By: "me", From: "cat:x", Now: now}
	var busy *lease.BusyError
	if _, err := Adopt(t.Context(), st, r); !errors.As(err, &busy) || len(busy.Holders) != 3 {
		t.Fatal(err)
	}
	r.Force = true
	out, err := Adopt(t.Context(), st, r)
	if err != nil || out.Tasks != 606 || out.Sections != 3 || out.Locks != 3 || len(out.LeftOut) != 0 || len(out.Changed) != 4 {
		t.Fatalf("%d tasks, %d sections, %d locks, %v, %v, %v", out.Tasks, out.Sections, out.Locks, out.LeftOut, out.Changed, err)
	}
	got, err := task.Show(t.Context(), st, "a")
	if err != nil || got.Status != task.InProgress || got.Lock == nil || got.Lock.Owner != "alice" || got.Stalled {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := task.Show(t.Context(), st, "c"); err != nil || !cmp.Equal(got.WaitsFor, []string{"b"}) {
		t.Errorf("%+v, %v", got, err)
	}
	again, err := Adopt(context.Background(), st, r)
	if err != nil || again.Tasks != 0 || again.Already != 606 || again.Locks != 3 {
		t.Errorf("again: %+v, %v", again, err)
	}
	if c, err := lease.Check(t.Context(), st, lease.CheckRequest{Key: "elsewhere", HeldBy: "bob"}); err != nil || c.Lock.Worktree != "/w" {
		t.Error(err)
	}
}

// An owner that goes on working there renews there. Its lock is taken over again
// when its lease here has expired, but not when it was released and not renewed since.
func TestAdoptAgainAfterItWasRenewedThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, since := store.New(memstore.New()), time.Now()
		adopt := func(until time.Time) (out AdoptResult) {
			var src Source
			src.addLock(Lock{Key: "a", Owner: "alice", Since: since, Until: until, where: "a.lock"}, time.Now())
			out, err := Adopt(t.Context(), st, AdoptRequest{Source: src, By: "me", Now: time.Now(), Force: true})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		held := func() bool {
			c, err := lease.Check(t.Context(), st, lease.CheckRequest{Key: "a"})
			return err != nil || c.Locked
		}
		first := time.Now().Add(time.Minute)
		adopt(first)
		adopt(first.Add(time.Minute)) // while it is held
		time.Sleep(90 * time.Second)
		if !held() {
			t.Error("a lock that was renewed there in time is free")
		}
		time.Sleep(time.Minute)
		if _, err := lease.Cleanup(t.Context(), st, lease.CleanupRequest{By: "me"}); err != nil || held() {
			t.Fatal(err)
		}
		again := time.Now().Add(time.Minute)
		if out := adopt(again); out.Locks != 1 || !held() {
			t.Errorf("renewed there after its time here had run out: %+v", out)
		}
		if _, err := lease.Release(t.Context(), st, lease.ReleaseRequest{Keys: []string{"a"}, Owner: "alice"}); err != nil {
			t.Fatal(err)
		}
		if out := adopt(again); out.GivenBack != 1 || held() {
			t.Errorf("released here: %+v", out)
		}
	})
}

// A task here that has the id of one there is not that one.
func TestAdoptTellsWhereAnotherHasTheID(t *testing.T) {
	st := store.New(memstore.New())
	if _, err := task.Add(t.Context(), st, task.AddRequest{Tasks: []task.New{{Title: "ours"}}, By: "me"}); err != nil {
		t.Fatal(err)
	}
	var src Source
	src.addTask(theirs("t1", "theirs", ""))
	second := theirs("t2", "also theirs", "")
	second.CreatedAt = now
	src.addTask(second)
	src.Jobs = []Job{{Name: "nightly", Cron: "0 3 * * *", ID: "1", where: "rows"}}
	for round := range 3 {
		if round == 2 { // renamed here, or changed there, since
			src.Tasks[1].Title, src.Jobs[0].Cron = "their second", "0 4 * * *"
		}
		out, err := Adopt(t.Context(), st, AdoptRequest{Source: src, By: "me", Now: now})
		if err != nil || len(out.LeftOut) != 1 || out.LeftOut[0].Where != "t1.md" || round > 0 && out.Already != 2 {
			t.Errorf("%d: %+v, %v", round, out, err)
		}
	}
	src.Jobs[0].ID = "2"
	if out, err := Adopt(t.Context(), st, AdoptRequest{Source: src, By: "me", Now: now}); err != nil || len(out.LeftOut) != 2 {
		t.Errorf("another job: %+v, %v", out, err)
	}
}

// The result names a task that was in progress and that nobody holds.
func TestAdoptTellsWhatNobodyHolds(t *testing.T) {
	var src Source
	src.addTask(theirs("a", "A", task.InProgress))
	src.addTask(theirs("b", "B", task.InProgress))
	src.addLock(Lock{Key: "b", Owner: "bob", where: "b.lock"}, now)
	st := store.New(memstore.New())
	for _, dry := range []bool{true, false} {
		out, err := Adopt(t.Context(), st, AdoptRequest{Source: src, By: "me", Now: now, Force: true, DryRun: dry})
		if err != nil || len(out.Changed) != 1 || out.Changed[0].Where != "a.md" {
			t.Errorf("dry %v: %+v, %v", dry, out, err)
		}
	}
}

func FuzzFiles(f *testing.F) {
	f.Add([]byte("session_id=a\ncreated_at=1700000000\nheartbeat=1700000000\nworktree=/a=b\n"))
	f.Add([]byte("12345@1699999999999"))
	f.Add([]byte(`{"id":"task-1","title":"x","status":"todo","depends_on":["task-2"]}`))
	f.Add([]byte("---\nstatus: Ready\ndepends: [1, t2_3]\nlabels: [a]\n---\ntext"))
	f.Add([]byte("task_id: 7\nlocked_by: a\nlocked_at: 2026-02-13 14:30\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		in := string(text)
		var all []Source
		add := func(s Source, err error) {
			if err != nil {
				t.Fatal(err) // one file never spoils the rest
			}
			all = append(all, s)
		}
		add(readCAT(files(map[string]string{"locks/a.lock": in}), "cat", now))
		add(readPi(files(map[string]string{"tasks/task-1.json": in, "locks/task-1.lock": in}), now))
		add(AITasks(AITasksFiles{Tasks: map[string][]byte{"aitasks/t7_x.md": text}, Locks: map[string][]byte{"t7_lock.yaml": text}}, now))
		for _, s := range all {
			for _, l := range s.Locks {
				if lease.CheckOwner(l.Owner) != nil || !l.Until.IsZero() && !l.Until.After(now) {
					t.Errorf("%+v", l)
				}
			}
			if _, err := Adopt(t.Context(), store.New(memstore.New()), AdoptRequest{Source: s, By: "me", Now: now, Force: true}); err != nil {
				t.Errorf("%+v: %v", s, err)
			}
		}
	})
}
