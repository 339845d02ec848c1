package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

// world is a store and the pods on it, all in this process.
type world struct {
	t  *testing.T
	st *store.Store

	mu   sync.Mutex
	runs map[string][]time.Time // by job, in their order
	now  map[string]int         // how many of a job run at this moment
	most map[string]int
}

func newWorld(t *testing.T, jobs ...Job) *world {
	return newWorldOn(t, store.New(memstore.New()), jobs...)
}

func newWorldOn(t *testing.T, st *store.Store, jobs ...Job) *world {
	w := &world{t: t, st: st, runs: map[string][]time.Time{}, now: map[string]int{}, most: map[string]int{}}
	_, err := Apply(t.Context(), w.st, ApplyRequest{Jobs: jobs, By: "tester"})
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// outage makes all fire times since then missed.
func (w *world) outage(since time.Duration) {
	_, err := w.st.Update(w.t.Context(), driver.Query{}, func(tx *store.Tx) error {
		all, err := store.All[dueRecord](tx, dueKind)
		if err != nil {
			return err
		}
		for _, d := range all {
			job, err := getJob(tx, d.Value.Job)
			if err != nil {
				return err
			}
			d.Value.setNext(job.Value, job.Value.cron().Next(tx.Now().Add(-since)))
			if err := putDue(tx, d.Value); err != nil {
				return err
			}
		}
		return nil
	})
	w.must(err)
}

func (w *world) handle(_ context.Context, f Fire) error {
	w.mu.Lock()
	w.now[f.Job]++
	w.most[f.Job] = max(w.most[f.Job], w.now[f.Job])
	w.runs[f.Job] = append(w.runs[f.Job], f.At)
	w.mu.Unlock()
	time.Sleep(time.Millisecond) // so that overlap would be seen
	w.mu.Lock()
	w.now[f.Job]--
	w.mu.Unlock()
	return nil
}

// pods runs n schedulers until done says so.
func (w *world) pods(n int, handlers map[string]Handler, done func() bool) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer stop()
	var all sync.WaitGroup
	for i := range n {
		s := New(w.st)
		for name, h := range handlers {
			s.Handle(name, h)
		}
		all.Go(func() {
			if err := s.Run(ctx, &Options{Pod: fmt.Sprintf("pod-%d", i)}); err != nil {
				w.t.Error(err)
			}
		})
	}
	for !done() {
		if ctx.Err() != nil {
			w.t.Error("never done")
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	all.Wait()
}

func (w *world) history(job string) []Fire {
	h, err := History(context.Background(), w.st, HistoryRequest{Job: job, Limit: 10_000})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	w.must(err)
	return h.Fires
}

// settled reports whether the job has been looked at and nothing of it runs.
func (w *world) settled(jobs ...string) func() bool {
	return func() bool {
		out, err := List(context.Background(), w.st)
		w.must(err)
		for _, j := range out.Jobs {
			if slices.Contains(jobs, j.Name) && (len(j.Running) > 0 || j.Next.Before(time.Now())) {
				return false
			}
		}
		return true
	}
}

// An hour without any pod: each policy does what it says, and no more.
func TestOutage(t *testing.T) {
	minutely := Job{Cron: "30 * * * * *", Keep: 500}
	w := newWorld(t,
		named(minutely, "skip", MisfireSkip), named(minutely, "once", MisfireOnce), named(minutely, "all", MisfireAll),
		named(Job{Cron: "0,30 * * * * *", Keep: 500}, "capped", MisfireAll))
	w.outage(time.Hour)
	handlers := map[string]Handler{}
	for _, name := range []string{"skip", "once", "all", "capped"} {
		handlers[name] = w.handle
	}
	began := time.Now()
	w.pods(3, handlers, w.settled("skip", "once", "all", "capped"))
	more := 2 + int(time.Since(began)/(30*time.Second)) // that fire meanwhile

	for name, want := range map[string]struct{ runs, times int }{"skip": {0, 60}, "once": {1, 60}, "all": {60, 60}, "capped": {MaxCatchUp, 120}} {
		runs := w.runs[name]
		if !slices.IsSortedFunc(runs, time.Time.Compare) || len(slices.CompactFunc(slices.Clone(runs), time.Time.Equal)) != len(runs) {
			t.Errorf("%s: out of order, or twice: %v", name, runs)
		}
		if w.most[name] > 1 {
			t.Errorf("%s: %d at a time", name, w.most[name])
		}
		times, busy := 0, 0 // the newest may be on time, and find the one before still running
		for _, f := range w.history(name) {
			n := max(1, f.Count)
			times += n
			switch {
			case f.State == Skipped && strings.HasPrefix(f.Why, "still running"):
				busy += n
			case f.State == Skipped && !strings.HasPrefix(f.Why, "missed: no pod was there"):
				t.Errorf("%s: %s: %s", name, f.RunID, f.Why)
			}
		}
		if len(runs)+busy < want.runs || len(runs) > want.runs+more || busy > more {
			t.Errorf("%s: %d runs, want %d; %d found one running", name, len(runs), want.runs, busy)
		}
		if times < want.times || times > want.times+more {
			t.Errorf("%s: records of %d fire times, want %d", name, times, want.times)
		}
	}
}

// Runs that may overlap are made up for at once: each of them, and no fire time twice.
func TestOutageAtOnce(t *testing.T) {
	w := newWorld(t, Job{Name: "x", Cron: "30 * * * * *", Keep: 500, Misfire: MisfireAll, Overlap: OverlapAllow})
	w.outage(time.Hour)
	w.pods(3, map[string]Handler{"x": w.handle}, w.settled("x"))
	runs := slices.Clone(w.runs["x"])
	slices.SortFunc(runs, time.Time.Compare)
	if n := len(slices.CompactFunc(slices.Clone(runs), time.Time.Equal)); len(runs) < 60 || n != len(runs) {
		t.Errorf("%d runs of %d fire times", len(runs), n)
	}
}

func named(j Job, name string, m Misfire) Job {
	j.Name, j.Misfire = name, m
	return j
}

// A handler that fails, panics, or runs too long has failed.
func TestHandlersEnd(t *testing.T) {
	w := newWorld(t, Job{Name: "fails", Cron: "@yearly"}, Job{Name: "panics", Cron: "@yearly"}, Job{Name: "long", Cron: "@yearly", MaxRun: 200 * time.Millisecond})
	for _, name := range []string{"fails", "panics", "long"} {
		_, err := Trigger(t.Context(), w.st, ChangeRequest{Name: name, By: "tester"})
		w.must(err)
	}
	w.pods(2, map[string]Handler{
		"fails":  func(context.Context, Fire) error { return errors.New("no luck") },
		"panics": func(context.Context, Fire) error { panic("at the disco") },
		"long":   func(ctx context.Context, _ Fire) error { <-ctx.Done(); return context.Cause(ctx) },
	}, func() bool {
		return ended(w.history("fails")) && ended(w.history("panics")) && ended(w.history("long"))
	})
	for name, why := range map[string]string{"fails": "no luck", "panics": "panic: at the disco", "long": "ran longer than max-run 200ms"} {
		if f := w.history(name)[0]; f.State != Failed || f.Why != why {
			t.Errorf("%s: %s, %s", name, f.State, f.Why)
		}
	}
}

func ended(list []Fire) bool { return len(list) > 0 && list[0].State != Claimed }

// A run whose lease was taken away is lost or starts again, by its policy, and
// what the old pod reports is refused.
func TestTakenAway(t *testing.T) {
	for _, pods := range []int{1, 2} {
		t.Run(fmt.Sprint(pods, " pods"), func(t *testing.T) { testTakenAway(t, pods) })
	}
}

func testTakenAway(t *testing.T, pods int) {
	w := newWorld(t, Job{Name: "lost", Cron: "@yearly"}, Job{Name: "retry", Cron: "@yearly", OnCrash: CrashRetry, MaxAttempts: 2})
	for _, name := range []string{"lost", "retry"} {
		_, err := Trigger(t.Context(), w.st, ChangeRequest{Name: name, By: "tester"})
		w.must(err)
	}
	var mu sync.Mutex
	attempts := map[string][]int{}
	first := func(_ context.Context, f Fire) error {
		mu.Lock()
		attempts[f.Job] = append(attempts[f.Job], f.Attempt)
		mu.Unlock()
		if f.Attempt == 1 {
			time.Sleep(3 * breath) // the pod sleeps by then
			_, err := lease.Break(context.Background(), w.st, lease.BreakRequest{Keys: []string{"job:" + f.Job}, By: "tester", Reason: "test"})
			return err
		}
		return nil
	}
	w.pods(pods, map[string]Handler{"lost": first, "retry": first}, func() bool { return ended(w.history("lost")) && ended(w.history("retry")) })
	if f := w.history("lost")[0]; f.State != Lost || len(attempts["lost"]) != 1 {
		t.Errorf("lost: %s, attempts %v", f.State, attempts["lost"])
	}
	if f := w.history("retry")[0]; f.State != Done || f.Attempt != 2 || !slices.Equal(attempts["retry"], []int{1, 2}) {
		t.Errorf("retry: %s, attempt %d, attempts %v", f.State, f.Attempt, attempts["retry"])
	}
}

// Changes are seen while pods run; what was fired is not fired again when the
// table comes back to it.
func TestChangesAreSeen(t *testing.T) {
	w := newWorld(t, Job{Name: "x", Cron: "@yearly"})
	w.pods(2, map[string]Handler{"x": w.handle}, func() bool {
		if len(w.history("x")) == 0 {
			_, err := Apply(t.Context(), w.st, ApplyRequest{Jobs: []Job{{Name: "x", Cron: "* * * * * *"}}})
			w.must(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.runs["x"]) >= 2
	})
	seen := map[time.Time]bool{}
	for _, at := range w.runs["x"] {
		if seen[at] {
			t.Errorf("%s twice", at)
		}
		seen[at] = true
	}
}

// Records are bounded by cleanup, and roughly in passing.
func TestKeep(t *testing.T) {
	w := newWorld(t, Job{Name: "x", Cron: "* * * * * *", Misfire: MisfireAll, Keep: 10})
	w.outage(200 * time.Second)
	_, err := Pause(t.Context(), w.st, ChangeRequest{Name: "x"}) // so that only what was missed counts
	w.must(err)
	for range 40 {
		_, err := Trigger(t.Context(), w.st, ChangeRequest{Name: "x", By: "tester"})
		w.must(err)
	}
	w.pods(1, map[string]Handler{"x": w.handle}, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.runs["x"]) == 40 })
	before := len(w.history("x"))
	if before > 41 || before < 10 { // with that of the pause; see TestKeepAtAnyPace
		t.Errorf("%d records are kept in passing", before)
	}
	n, err := Cleanup(t.Context(), w.st, false)
	w.must(err)
	if after := len(w.history("x")); after != 10 || n != before-10 {
		t.Errorf("%d records after cleanup of %d", after, n)
	}
}

// Removing a job leaves its history and ends what runs in a record.
func TestRemoveWhileRunning(t *testing.T) {
	w := newWorld(t, Job{Name: "x", Cron: "@yearly"})
	_, err := Trigger(t.Context(), w.st, ChangeRequest{Name: "x", By: "tester"})
	w.must(err)
	w.pods(1, map[string]Handler{"x": func(context.Context, Fire) error {
		return Remove(context.Background(), w.st, ChangeRequest{Name: "x"})
	}}, func() bool { return ended(w.history("x")) })
	if f := w.history("x")[0]; f.State != Done || f.By != "tester" {
		t.Errorf("%+v", f)
	}
	if out, err := List(t.Context(), w.st); err != nil || len(out.Jobs) != 0 {
		t.Errorf("%v, %v", out, err)
	}
}
