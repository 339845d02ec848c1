package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// What was due and is dropped by a person leaves a record too.
func TestDroppedLeavesARecord(t *testing.T) {
	w := newWorld(t,
		Job{Name: "pause", Cron: "* * * * *"}, Job{Name: "change", Cron: "* * * * *", Jitter: time.Hour},
		Job{Name: "remove", Cron: "* * * * *"}, Job{Name: "prune", Cron: "* * * * *"})
	w.outage(10 * time.Minute)
	for _, name := range []string{"remove", "prune"} {
		_, err := Trigger(t.Context(), w.st, ChangeRequest{Name: name, By: "tester"})
		w.must(err)
	}
	_, err := Pause(t.Context(), w.st, ChangeRequest{Name: "pause"})
	w.must(err)
	w.must(Remove(t.Context(), w.st, ChangeRequest{Name: "remove"}))
	_, err = Apply(t.Context(), w.st, ApplyRequest{Jobs: []Job{{Name: "change", Cron: "@yearly"}, {Name: "pause", Cron: "* * * * *"}}, Prune: true})
	w.must(err)
	for name, want := range map[string]struct {
		why     string
		records int
	}{"pause": {"paused", 1}, "change": {"changed", 1}, "remove": {"removed", 2}, "prune": {"removed", 2}} {
		times, list := 0, w.history(name)
		for _, f := range list {
			times += max(1, f.Count)
			if f.State != Skipped || !strings.Contains(f.Why, want.why) {
				t.Errorf("%s: %s, %s", name, f.State, f.Why)
			}
		}
		if len(list) != want.records || times < 9 {
			t.Errorf("%s: %d records of %d fire times", name, len(list), times)
		}
	}
}

// A file may remove as many jobs as it may add.
func TestPruneMany(t *testing.T) {
	var jobs []Job
	for i := range 300 {
		jobs = append(jobs, Job{Name: fmt.Sprint("j", i), Cron: "@yearly"})
	}
	w := newWorld(t, jobs...)
	out, err := Apply(t.Context(), w.st, ApplyRequest{Jobs: jobs[:1], Prune: true})
	w.must(err)
	if len(out.Changes) != 300 {
		t.Errorf("%d changes", len(out.Changes))
	}
}

// Records are bounded whatever the revisions are at which runs end, and where
// nothing runs at all.
func TestKeepAtAnyPace(t *testing.T) {
	for shift := range 2 {
		var jobs []Job
		for i := range 8 {
			jobs = append(jobs, Job{Name: fmt.Sprint("j", i), Cron: "* * * * * *", Misfire: MisfireAll, Keep: 10})
		}
		w := newWorld(t, jobs...)
		for range 1 + shift {
			w.outage(95 * time.Second)
		}
		for i := range 8 * 50 { // two commits each
			_, err := finish(t.Context(), w.st, w.claimDue(jobs[i%8].Name), ending{state: Done})
			w.must(err)
		}
		if n := len(w.history("")); n > 8*40 {
			t.Errorf("shift %d: %d records", shift, n)
		}
	}
	w := newWorld(t, Job{Name: "x", Cron: "@yearly", Keep: 10})
	_, err := lease.Acquire(t.Context(), w.st, lease.AcquireRequest{Owner: "tester", Keys: []string{"job:x"}, TTL: time.Hour})
	w.must(err)
	for range 400 {
		_, err := Trigger(t.Context(), w.st, ChangeRequest{Name: "x", By: "tester"})
		w.must(err)
		var done *settled
		if err := settle(t.Context(), w.st, candidate{job: "x"}); !errors.As(err, &done) {
			t.Fatal(err)
		}
	}
	if n := len(w.history("x")); n > 200 {
		t.Errorf("%d records of skipped fire times", n)
	}
}

// claim triggers a job and claims it.
func (w *world) claim(name string) claimed {
	w.t.Helper()
	_, err := Trigger(w.t.Context(), w.st, ChangeRequest{Name: name, By: "tester"})
	w.must(err)
	return w.claimDue(name)
}

func (w *world) claimDue(name string) claimed {
	w.t.Helper()
	c, err := claimNext(w.t.Context(), w.st, candidate{job: name, key: "job:" + name, ttl: time.Minute}, lease.AcquireRequest{Owner: "pod-1"})
	w.must(err)
	w.t.Cleanup(func() { _ = c.lease.Release(context.Background()) })
	return c
}

// The end of a run whose answer got lost is not refused when it is reported again,
// and another end is.
func TestFinishAgain(t *testing.T) {
	w := newWorld(t, Job{Name: "x", Cron: "@yearly"})
	c := w.claim("x")
	for range 2 {
		f, err := finish(t.Context(), w.st, c, ending{state: Done})
		if err != nil || f.State != Done {
			t.Errorf("%+v, %v", f, err)
		}
	}
	if _, err := finish(t.Context(), w.st, c, ending{state: Failed}); !errors.Is(err, lease.ErrLost) {
		t.Errorf("another end: %v", err)
	}
}

// A pod that could not be sure of its lease, and comes back first, leaves the
// run to the policy for crashes.
func TestLeaseInDoubtIsRetried(t *testing.T) {
	w := newWorld(t, Job{Name: "x", Cron: "@yearly", OnCrash: CrashRetry, MaxAttempts: 2})
	for attempt, want := range []State{Claimed, Lost} {
		c := w.claimAgain("x", attempt)
		e := (&run{claimed: c}).outcome(-1, &lease.LostError{Key: c.key, Token: c.fire.Token, Why: "silent"})
		_, err := finish(t.Context(), w.st, c, e)
		w.must(err)
		if f := w.history("x")[0]; f.State != want || f.Attempt != attempt+1 {
			t.Errorf("attempt %d: %s, %s", f.Attempt, f.State, f.Why)
		}
	}
}

func (w *world) claimAgain(name string, attempt int) claimed {
	if attempt == 0 {
		return w.claim(name)
	}
	return w.claimDue(name)
}

// Runs that might overlap when they began are still in the way once they may not.
func TestOverlapIsForbiddenWhileOneRuns(t *testing.T) {
	w := newWorld(t, Job{Name: "x", Cron: "@yearly", Overlap: OverlapAllow})
	w.claim("x")
	_, err := Apply(t.Context(), w.st, ApplyRequest{Jobs: []Job{{Name: "x", Cron: "@yearly"}}})
	w.must(err)
	_, err = Trigger(t.Context(), w.st, ChangeRequest{Name: "x", By: "tester"})
	w.must(err)
	var done *settled
	_, err = claimNext(t.Context(), w.st, candidate{job: "x", key: "job:x", ttl: time.Minute}, lease.AcquireRequest{Owner: "pod-2"})
	if !errors.As(err, &done) || w.history("x")[0].State != Skipped {
		t.Errorf("%v, %+v", err, w.history("x"))
	}
}

// A zone that this program does not know keeps the job from running here. It is not
// damage, and nothing about the job changes.
func TestZoneOfANewerProgram(t *testing.T) {
	w := newWorld(t, Job{Name: "x", Cron: "* * * * *"}, Job{Name: "y", Cron: "@yearly"})
	w.outage(time.Hour)
	_, err := w.st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
		job, err := getJob(tx, "x")
		job.Value.Zone = "Mars/Olympus"
		return errors.Join(err, tx.Put(jobKind+"x", job.Value))
	})
	w.must(err)
	var zone *ZoneError
	_, err = claimNext(t.Context(), w.st, candidate{job: "x", key: "job:x", ttl: time.Minute}, lease.AcquireRequest{Owner: "pod-1"})
	if !errors.As(err, &zone) || len(w.history("x")) != 0 {
		t.Errorf("%v, %v", err, w.history("x"))
	}
	if out, err := List(t.Context(), w.st); err != nil || len(out.Jobs) != 2 || out.Jobs[0].Next == nil {
		t.Errorf("%+v, %v", out, err)
	}
}

// A missed fire time that has a record already does not keep the job from going on.
func TestPassOverTheNewest(t *testing.T) {
	w := newWorld(t, Job{Name: "x", Cron: "* * * * *", Misfire: MisfireOnce})
	w.outage(10 * time.Minute)
	newest := time.Now().UTC().Add(-onTime).Truncate(time.Minute)
	_, err := w.st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
		for i := range 2 { // the minute may change while we look
			at := newest.Add(time.Duration(i) * time.Minute)
			if err := putFire(tx, Fire{Job: "x", At: at, RunID: runID("x", at), State: Done}); err != nil {
				return err
			}
		}
		return nil
	})
	w.must(err)
	_, err = claimNext(t.Context(), w.st, candidate{job: "x", key: "job:x", ttl: time.Minute}, lease.AcquireRequest{Owner: "pod-1"})
	if !errors.Is(err, errNothing) {
		t.Fatal(err)
	}
	info, err := Show(t.Context(), w.st, "x")
	w.must(err)
	if !info.Next.After(newest) {
		t.Errorf("next is %s", info.Next)
	}
}

// Handlers obey the bound too, and those that had to wait have their turn.
func TestHandlersAreBounded(t *testing.T) {
	var jobs []Job
	handlers := map[string]Handler{}
	w := newWorld(t)
	for i := range 12 {
		name := fmt.Sprint("j", i)
		jobs = append(jobs, Job{Name: name, Cron: "@yearly"})
		handlers[name] = func(ctx context.Context, f Fire) error {
			f.Job = "all"
			return w.handle(ctx, f)
		}
	}
	_, err := Apply(t.Context(), w.st, ApplyRequest{Jobs: jobs})
	w.must(err)
	for _, j := range jobs {
		_, err := Trigger(t.Context(), w.st, ChangeRequest{Name: j.Name, By: "tester"})
		w.must(err)
	}
	s := New(w.st)
	for name, h := range handlers {
		s.Handle(name, h)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w.must(s.Run(ctx, &Options{MaxRunning: 2, Once: true}))
	if len(w.runs["all"]) != 12 || w.most["all"] > 2 {
		t.Errorf("%d runs, %d at a time", len(w.runs["all"]), w.most["all"])
	}
}

// The times of a job that waits are that one, and those to come.
func TestTimesAreToCome(t *testing.T) {
	w := newWorld(t, Job{Name: "x", Cron: "* * * * *"})
	w.outage(time.Hour)
	_, times, err := Times(t.Context(), w.st, "x", 3)
	w.must(err)
	if len(times) != 3 || times[0].After(time.Now()) || times[1].Before(time.Now().Add(-time.Minute)) {
		t.Errorf("%v", times)
	}
}

// A pod that runs once does all there is to do, and does not wait when it is done.
func TestOnce(t *testing.T) {
	for range 6 {
		w := newWorld(t, Job{Name: "x", Cron: "@yearly", Overlap: OverlapQueue})
		for range 3 {
			_, err := Trigger(t.Context(), w.st, ChangeRequest{Name: "x", By: "tester"})
			w.must(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), longSleep/2)
		w.must(New(w.st).Handle("x", w.handle).Run(ctx, &Options{Once: true}))
		if len(w.runs["x"]) != 3 || ctx.Err() != nil {
			t.Fatalf("%d runs, %v", len(w.runs["x"]), ctx.Err())
		}
		cancel()
	}
}
