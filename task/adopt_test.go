package task_test

import (
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// Tasks from elsewhere arrive as they were there: claimed, closed, archived.
func TestAdopt(t *testing.T) {
	w := newWorld(t)
	since := time.Now().Add(-72 * time.Hour).UTC().Truncate(time.Second)
	w.must(ignore(task.SetSection(w.ctx, w.st, task.SectionRequest{Name: "UI/Web", New: true})))
	w.must(ignore(task.SetSection(w.ctx, w.st, task.SectionRequest{Name: "UI", New: true})))
	acquire := lease.AcquireRequest{
		Keys: []string{"t5"}, Owner: "runner-1", ID: "import-1", Worktree: "/w", OuterKey: task.OuterKeyNew("UI/Web"),
	}
	w.must(ignore(lease.AcquireFrom(w.ctx, w.st, acquire, lease.Origin{Host: "elsewhere", PID: host.Self().PID, Since: since})))
	past := []task.Past{
		{New: task.New{ID: "t3", Title: "old"}, Status: task.Completed, Archived: true, CompletedBy: "b", CompletedAt: since},
		{New: task.New{ID: "t5", Title: "now", Section: "UI/Web", DependsOn: []string{"t3"}}, Status: task.InProgress, HeldBy: "runner-1"},
		{New: task.New{ID: "t6", Title: "open", Section: "UI"}, Status: task.InProgress},
		{New: task.New{ID: "t7", Title: "done"}, Status: task.Completed, CompletedBy: "a", Result: &task.Result{Summary: "s", Commits: []string{"c"}}},
		{New: task.New{ID: "t8", Title: "stuck"}, Status: task.Blocked, BlockedReason: "why", Progress: "half"},
	}
	w.must(ignore(task.Adopt(w.ctx, w.st, task.AdoptRequest{Tasks: past, From: "there", By: "me"})))
	now := w.show("t5")
	if now.Status != task.InProgress || now.ClaimedBy != "runner-1" || now.Lock == nil || now.Stalled || len(now.WaitsFor) > 0 {
		t.Errorf("%+v", now)
	}
	if l := now.Lock; !l.AcquiredAt.Equal(since) || l.Host != "elsewhere" || l.PID != host.Self().PID || l.Worktree != "/w" || l.State != lease.Held {
		t.Errorf("%+v", l)
	}
	if got := w.show("t7"); got.CompletedBy != "a" || got.Result.Commits[0] != "c" || got.CompletedAt == nil {
		t.Errorf("%+v", got)
	}
	if got := w.show("t8"); got.BlockedReason != "why" || got.Progress != "half" || got.Status != task.Blocked {
		t.Errorf("%+v", got)
	}
	next, err := task.Next(w.ctx, w.st, task.NextRequest{Section: "UI"}) // and nothing of UI/Web
	if err != nil || next.Task.ID != "t6" {
		t.Errorf("%+v, %v", next, err)
	}
	_, err = task.Adopt(w.ctx, w.st, task.AdoptRequest{Tasks: past[:1], By: "me"})
	equal(w, "why", as[*task.StateError](w, err).Why, "exists already")
	events, err := lease.History(w.ctx, w.st, lease.HistoryRequest{Key: "t7"})
	w.must(err)
	equal(w, "event", events.Events[0].Event+" "+events.Events[0].Why, "task imported as completed")

	// The lock and that of the section leave together.
	w.must(ignore(lease.Release(w.ctx, w.st, lease.ReleaseRequest{Keys: []string{"t5"}, Owner: "runner-1"})))
	left, err := lease.List(w.ctx, w.st, lease.ListRequest{})
	w.must(err)
	equal(w, "locks", len(left.Locks), 0)
	// The same import does not take again what was released.
	_, err = lease.Acquire(w.ctx, w.st, acquire)
	w.want(err, lease.ErrLost)

	w.must(ignore(lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Keys: []string{"t3"}, Owner: "x"})))
	freed, err := task.FreeArchived(w.ctx, w.st, "me", false)
	if err != nil || len(freed) != 1 || freed[0] != "t3" {
		t.Errorf("%v, %v", freed, err)
	}
	w.must(task.RaiseNumber(w.ctx, w.st, 40, false))
	w.must(task.RaiseNumber(w.ctx, w.st, 4, false))
	if n, err := task.NextNumber(w.ctx, w.st, false); err != nil || n != 40 {
		t.Errorf("%d, %v", n, err)
	}
}

func ignore[T any](_ T, err error) error { return err }

// Digits can be the beginning of a UUID, and of no number.
func TestDigitsOfAUUID(t *testing.T) {
	w := newWorld(t)
	const id = "12345678-58cc-4372-a567-0e02b2c3d479"
	w.add(task.New{Title: "a", ID: id}, task.New{Title: "b", ID: "t12345"})
	equal(w, "id", w.show("12345678").ID, id)
	equal(w, "id", w.show("12345").ID, "t12345")
	_, err := task.Show(w.ctx, w.st, "t1234")
	w.want(err, lease.ErrNotFound)
}
