//go:build linux || darwin

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

// journal collects what runners say.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) log(e worker.LogEntry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, e.Runner+": "+e.Message)
}

func (j *journal) has(line string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Contains(j.lines, line)
}

func queue(t *testing.T, list ...task.New) *store.Store {
	t.Helper()
	st := store.New(memstore.New())
	if _, err := task.Add(t.Context(), st, task.AddRequest{Tasks: list, By: "test"}); err != nil {
		t.Fatal(err)
	}
	return st
}

func statusOf(t *testing.T, st *store.Store, id string) task.Info {
	t.Helper()
	i, err := task.Show(t.Context(), st, id)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestWorkGoesElsewhere: a runner that finds a section taken works in another,
// by the order of sections, and goes on to tasks without one.
func TestWorkGoesElsewhere(t *testing.T) {
	st := queue(t, task.New{Title: "a", Section: "A"}, task.New{Title: "b", Section: "B"}, task.New{Title: "c"}, task.New{Title: "d", Section: "B"})
	if _, err := lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{"section:A"}, Owner: "other"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var j journal
	done := make(chan worker.Summary)
	go func() {
		sum, err := worker.Work(ctx, st, worker.Options{Owner: "me", Name: "R", Command: []string{"true"}, Log: j.log})
		if err != nil {
			t.Error(err)
		}
		done <- sum
	}()
	patience.Until(t, "it waits for section A", func() bool { return j.has("R: Waiting for section lock...") })
	cancel()
	if sum := <-done; sum.Completed != 3 {
		t.Errorf("%+v\n%s", sum, strings.Join(j.lines, "\n"))
	}
	if i := statusOf(t, st, "t1"); i.Status != task.Pending || i.Attempts != 0 {
		t.Errorf("a is %s after %d attempts", i.Status, i.Attempts)
	}
	out, err := lease.List(t.Context(), st, lease.ListRequest{Owner: "me"})
	if err != nil || len(out.Locks) > 0 {
		t.Errorf("left behind: %v, %v", out.Locks, err)
	}
}

// TestWorkEndsAtOnce: a command that cannot be started fails no task.
func TestWorkEndsAtOnce(t *testing.T) {
	st := queue(t, task.New{Title: "a"})
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var start *runner.StartError
	if sum, err := worker.Work(t.Context(), st, worker.Options{Owner: "me", Command: []string{bad}}); !errors.As(err, &start) || sum.Stopped != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	if i := statusOf(t, st, "t1"); i.Status != task.Pending || i.Attempts != 0 {
		t.Errorf("it is %s after %d attempts", i.Status, i.Attempts)
	}
	for _, o := range []worker.Options{
		{Owner: "me"},
		{Command: []string{"true"}},
		{Owner: "me", Command: []string{"true"}, Name: "a/b"},
		{Owner: "me", Command: []string{"true"}, Retries: -1},
		{Owner: "me", Command: []string{"true"}, TTL: 1},
	} {
		var invalid *lease.InvalidError
		if _, err := worker.Work(t.Context(), st, o); !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestWorkTogether: eight runners in one process, sections and all, do each
// task once.
func TestWorkTogether(t *testing.T) {
	var list []task.New
	for i := range 40 {
		list = append(list, task.New{Title: fmt.Sprint(i), Section: []string{"", "A", "B"}[i%3]})
	}
	st := queue(t, list...)
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for i := range 8 {
		wg.Go(func() {
			sum, err := worker.Work(t.Context(), st, worker.Options{Owner: "me", Name: fmt.Sprint("r", i), Command: []string{"true"}})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += sum.Completed
		})
	}
	wg.Wait()
	if total != len(list) {
		t.Errorf("%d of %d were completed", total, len(list))
	}
	if out, err := worker.List(t.Context(), st); err != nil || len(out.Runners) > 0 {
		t.Errorf("left behind: %v, %v", out.Runners, err)
	}
}

// TestSectionOfTheDead: the section of a runner that is dead stays its own while
// the command of its task may still be at work.
func TestSectionOfTheDead(t *testing.T) {
	st := queue(t, task.New{Title: "a", Section: "S"})
	dead := exec.Command("sleep", "60")
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := host.Find(dead.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{"section:S"}, Owner: "me/R", Process: p}); err != nil {
		t.Fatal(err)
	}
	claim, err := task.ClaimTasks(t.Context(), st, task.ClaimRequest{Tasks: []string{"t1"}, Acquire: lease.AcquireRequest{Owner: "me/R/x", Process: host.Self()}})
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.Process.Kill()
	_ = dead.Wait()
	held := &lease.HeldError{}
	take := func() error {
		_, err := lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{"section:S"}, Owner: "other"})
		return err
	}
	if err := take(); !errors.As(err, &held) {
		t.Errorf("the section was taken while its task is worked on: %v", err)
	}
	if out, err := lease.Cleanup(t.Context(), st, lease.CleanupRequest{By: "other"}); err != nil || len(out.Freed) > 0 {
		t.Errorf("cleanup freed %v, %v", out.Freed, err)
	}
	go func() {
		time.Sleep(50 * time.Millisecond)
		_, _ = lease.Release(context.Background(), st, lease.ReleaseRequest{Owner: "me/R/x", Lease: claim.Grant.LeaseID})
	}()
	if _, err := lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{"section:S"}, Owner: "other", Wait: patience.Limit}); err != nil {
		t.Fatal(err)
	}
}

// refusing takes no completion: as if what a task makes ready fitted into no commit.
type refusing struct{ driver.Store }

func (r refusing) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if strings.Contains(b.Note, "task complete") {
		return 0, fmt.Errorf("%w: commit of 2000000 bytes", driver.ErrTooLarge)
	}
	return r.Store.Commit(ctx, b)
}

// TestCompletionRefused: work whose completion is refused is not done again.
func TestCompletionRefused(t *testing.T) {
	st := store.New(refusing{memstore.New()})
	if _, err := task.Add(t.Context(), st, task.AddRequest{Tasks: []task.New{{Title: "a"}}, By: "test"}); err != nil {
		t.Fatal(err)
	}
	var j journal
	sum, err := worker.Work(t.Context(), st, worker.Options{Owner: "me", Name: "R", Command: []string{"true"}, Retries: 5, Max: 5, Log: j.log})
	if err != nil || sum.Failed != 1 {
		t.Errorf("%+v, %v\n%s", sum, err, strings.Join(j.lines, "\n"))
	}
	i := statusOf(t, st, "t1")
	if i.Status != task.Failed || i.Attempts != 1 || !strings.Contains(i.Result.Summary, "completion was refused") {
		t.Errorf("it is %s after %d attempts: %+v", i.Status, i.Attempts, i.Result)
	}
}
