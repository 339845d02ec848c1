package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

func numbered(n int) (jobs []Job) {
	for i := range n {
		jobs = append(jobs, Job{Name: fmt.Sprintf("job-number-%05d", i), Cron: "0 4 * * *", Command: []string{"./work", "--part", fmt.Sprint(i)}})
	}
	return jobs
}

// As many jobs as the limit says can be made, changed and removed.
func TestApplyAsManyAsTheLimitSays(t *testing.T) {
	long.NotShort(t)
	w := newWorld(t)
	jobs := numbered(MaxJobs)
	for _, step := range []struct {
		action string
		r      ApplyRequest
	}{{"added", ApplyRequest{Jobs: jobs}}, {"removed", ApplyRequest{Prune: true}}} {
		out, err := Apply(t.Context(), w.st, step.r)
		w.must(err)
		n := 0
		for _, c := range out.Changes {
			if c.Action == step.action {
				n++
			}
		}
		if n != MaxJobs {
			t.Errorf("%d jobs were %s, want %d", n, step.action, MaxJobs)
		}
	}
	if _, err := Apply(t.Context(), w.st, ApplyRequest{Jobs: numbered(MaxJobs + 1)}); !errors.Is(err, driver.ErrTooLarge) {
		t.Errorf("one more than the limit: %v", err)
	}
	if list, err := List(t.Context(), w.st); err != nil || len(list.Jobs) > 0 {
		t.Errorf("%d jobs are left, %v", len(list.Jobs), err)
	}
}

// Few jobs with long commands are as many bytes as many with short ones.
func TestApplyLongJobs(t *testing.T) {
	w := newWorld(t)
	jobs := numbered(60)
	for i := range jobs {
		jobs[i].Command = []string{"./work", strings.Repeat("x", 45_000)}
	}
	out, err := Apply(t.Context(), w.st, ApplyRequest{Jobs: jobs})
	w.must(err)
	if len(out.Changes) != len(jobs) {
		t.Errorf("%d of %d jobs were applied", len(out.Changes), len(jobs))
	}
}

// busyStore refuses what guards all that is due, as where pods claim all the
// time, and ends the connection after some commits.
type busyStore struct {
	driver.Store
	left int // commits until it is out of reach
}

func (b *busyStore) Commit(ctx context.Context, c driver.Batch) (int64, error) {
	for _, g := range c.Guards {
		if g.Key == dueKind {
			return 0, driver.ErrConflict
		}
	}
	if b.left--; b.left < 0 {
		return 0, drivertest.ErrFlaky
	}
	return b.Store.Commit(ctx, c)
}

// Where pods are at work many jobs are made some at a time. What is refused is
// refused before the first of them, and what was interrupted is completed.
func TestApplyInSteps(t *testing.T) {
	long.NotShort(t)
	synctest.Test(t, func(t *testing.T) {
		busy := &busyStore{Store: memstore.New(), left: 1000}
		w := newWorldOn(t, store.New(busy))
		jobs := numbered(300)
		w.apply(ApplyRequest{Jobs: jobs[290:291]})
		if _, err := Apply(t.Context(), w.st, ApplyRequest{Jobs: jobs, New: true}); !errors.As(err, new(*ExistsError)) {
			t.Errorf("one of them exists: %v", err)
		}
		if list, err := List(t.Context(), w.st); err != nil || len(list.Jobs) != 1 {
			t.Errorf("%d jobs after a refusal, %v", len(list.Jobs), err)
		}
		busy.left = 3
		_, err := Apply(t.Context(), w.st, ApplyRequest{Jobs: jobs})
		if err == nil || !strings.Contains(err.Error(), "jobs are applied; the same command applies the rest") {
			t.Errorf("interrupted: %v", err)
		}
		busy.left = 1000
		out, err := Apply(t.Context(), w.st, ApplyRequest{Jobs: jobs})
		w.must(err)
		done := map[string]int{}
		for _, c := range out.Changes {
			done[c.Action]++
		}
		if done["unchanged"] == 0 || done["added"] == 0 || done["added"]+done["unchanged"] != 300 {
			t.Errorf("completed: %v", done)
		}
		out, err = Apply(t.Context(), w.st, ApplyRequest{Jobs: jobs[:10], Prune: true})
		w.must(err)
		if list, err := List(t.Context(), w.st); err != nil || len(list.Jobs) != 10 || len(out.Changes) != 300 {
			t.Errorf("%d jobs after %d changes, %v", len(list.Jobs), len(out.Changes), err)
		}
	})
}

// Runs that may overlap are bounded, and what there is no room for leaves a
// record that says so.
func TestRunsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, store.New(drivertest.NewStrict(t, memstore.New())), Job{Name: "x", Cron: "* * * * * *", Overlap: OverlapAllow})
		next := func() (claimed, error) {
			time.Sleep(time.Second)
			return claimNext(t.Context(), w.st, candidate{job: "x", key: "job:x", ttl: time.Hour}, lease.AcquireRequest{Owner: "pod-1"})
		}
		var all []claimed
		for range MaxRuns {
			c, err := next()
			w.must(err)
			all = append(all, c)
		}
		var done *settled
		if _, err := next(); !errors.As(err, &done) {
			t.Errorf("one run too many: %v", err)
		}
		if f := w.history("x")[0]; f.State != Skipped || f.Why != "200 runs of it were under way: at most 200 at a time" {
			t.Errorf("%s: %s", f.State, f.Why)
		}
		for i, c := range all {
			w.must(c.lease.ReleaseWith(t.Context(), func(ctx context.Context) error {
				_, err := finish(ctx, w.st, c, ending{state: Done})
				return err
			}))
			if i == 0 { // there is room again
				c, err := next()
				w.must(err)
				w.must(c.lease.Release(t.Context()))
			}
		}
	})
}
