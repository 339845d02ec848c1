package schedule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	wait "github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

func (w *world) setPool(slots int) {
	w.t.Helper()
	_, err := lease.SetPool(w.t.Context(), w.st, lease.SetPoolRequest{Name: "tests", Slots: slots, By: "tester"})
	w.must(err)
}

func (w *world) add(jobs ...Job) {
	w.t.Helper()
	_, err := Apply(w.t.Context(), w.st, ApplyRequest{Jobs: jobs, By: "tester"})
	w.must(err)
}

func (w *world) slotsUsed() int {
	p, err := lease.ShowPool(context.Background(), w.st, "tests")
	w.must(err)
	return p.Used
}

func (w *world) holdSlot() *lease.Lease {
	w.t.Helper()
	l, err := lease.Hold(w.t.Context(), w.st, lease.AcquireRequest{Keys: []string{"pool:tests"}, Owner: "other"})
	w.must(err)
	return l
}

// Six jobs that are due at once share two slots: never more than two run, and each
// fires once.
func TestJobsInPool(t *testing.T) {
	w := newWorld(t)
	w.setPool(2)
	var jobs []Job
	var names []string
	handlers := map[string]Handler{}
	var wrong atomic.Int64
	for i := range 6 {
		name := fmt.Sprint("j", i)
		names, jobs = append(names, name), append(jobs, Job{Name: name, Cron: "@yearly", Misfire: MisfireOnce, Pool: "tests"})
		handlers[name] = func(ctx context.Context, f Fire) error {
			if f.Slot < 1 || f.Slot > 2 || w.slotsUsed() > 2 {
				wrong.Add(1)
			}
			f.Job = "all"
			return w.handle(ctx, f)
		}
	}
	w.add(jobs...)
	w.outage(400 * 24 * time.Hour)
	w.pods(3, handlers, w.settled(names...))
	if w.most["all"] > 2 || len(w.runs["all"]) != 6 || wrong.Load() > 0 {
		t.Errorf("%d runs, %d at a time, %d without a slot", len(w.runs["all"]), w.most["all"], wrong.Load())
	}
	for _, name := range names {
		if f := w.history(name)[0]; f.State != Done {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if n := w.slotsUsed(); n > 0 {
		t.Errorf("%d slots left behind", n)
	}
}

// The slot is taken with the claim and released with it, in the same commits.
func TestSlotEndsWithRun(t *testing.T) {
	w := newWorld(t)
	w.setPool(1)
	w.add(Job{Name: "x", Cron: "@yearly", Pool: "pool:tests"}, Job{Name: "y", Cron: "@yearly", Pool: "tests"})
	c := w.claim("x")
	if w.slotsUsed() != 1 || c.key != "job:x" || c.fire.Slot != 1 {
		t.Errorf("claimed %s with slot %d", c.key, c.fire.Slot)
	}
	if p, err := lease.ShowPool(t.Context(), w.st, "tests"); err != nil || p.Holders[0].Token != c.fire.Token {
		t.Errorf("the slot was taken in another commit than the claim: %+v, the job at %d", p.Holders, c.fire.Token)
	}
	_, err := Trigger(t.Context(), w.st, ChangeRequest{Name: "y", By: "tester"})
	w.must(err)
	_, err = claimNext(t.Context(), w.st, candidate{job: "y", key: "job:y", ttl: time.Minute}, lease.AcquireRequest{Owner: "pod-2"})
	if !errors.Is(err, errPoolFull) {
		t.Errorf("a second claim: %v", err)
	}
	_, err = finish(t.Context(), w.st, c, ending{state: Done})
	w.must(err)
	if n := w.slotsUsed(); n != 0 {
		t.Errorf("%d slots after the end", n)
	}
	w.claimDue("y")
}

// A fire time that finds no slot waits for one, whatever the policies say, and a pod
// hears when a stranger releases it.
func TestFireWaitsForSlot(t *testing.T) {
	w := newWorld(t)
	w.setPool(1)
	w.add(Job{Name: "x", Cron: "@yearly", Misfire: MisfireSkip, Pool: "tests"})
	slot := w.holdSlot()
	w.dueNow("x")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	var waits atomic.Int64
	go func() {
		done <- New(w.st).Handle("x", w.handle).Run(ctx, &Options{Log: func(e LogEntry) {
			if strings.HasPrefix(e.Message, "Waiting with x") {
				waits.Add(1)
			}
		}})
	}()
	wait.Until(t, "it waits", func() bool {
		i, err := Show(t.Context(), w.st, "x")
		return err == nil && i.Waiting && waits.Load() == 1
	})
	w.must(slot.Release(t.Context()))
	wait.Until(t, "it has run", func() bool { h := w.history("x"); return len(h) == 1 && h[0].State == Done })
	stop()
	w.must(<-done)
	if waits.Load() != 1 {
		t.Errorf("it logged %d waits", waits.Load())
	}
}

// dueNow makes a job due at this moment.
func (w *world) dueNow(name string) {
	w.t.Helper()
	w.must(update(w.t.Context(), w.st, false, need(name), func(tx *store.Tx) error {
		job, due, err := mustJob(tx, name)
		if err != nil {
			return err
		}
		due.setNext(job, tx.Now().UTC().Truncate(time.Second))
		return putDue(tx, due)
	}))
}

// A pool that does not exist is refused with the job; one that was removed later is
// reported, and in the record of the fire time.
func TestJobNeedsPool(t *testing.T) {
	w := newWorld(t)
	x := Job{Name: "x", Cron: "@yearly", Pool: "tests"}
	_, err := Apply(t.Context(), w.st, ApplyRequest{Jobs: []Job{x}})
	if none := (*lease.PoolSizeError)(nil); !errors.As(err, &none) || none.Pool != "tests" {
		t.Errorf("no pool: %v", err)
	}
	w.setPool(1)
	w.add(x)
	w.must(lease.RemovePool(t.Context(), w.st, lease.RemovePoolRequest{Name: "tests", By: "tester"}))
	_, err = Trigger(t.Context(), w.st, ChangeRequest{Name: "x", By: "tester"})
	w.must(err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	var said atomic.Bool
	go func() {
		done <- New(w.st).Handle("x", w.handle).Run(ctx, &Options{Log: func(e LogEntry) {
			if e.Event == "trouble" && strings.Contains(e.Message, "pool tests has no size") {
				said.Store(true)
			}
		}})
	}()
	wait.Until(t, "the log says so", said.Load)
	w.setPool(1)
	wait.Until(t, "it has run", func() bool { h := w.history("x"); return len(h) == 1 && h[0].State == Done })
	stop()
	w.must(<-done)
}

// queue is who waits for a slot, in order.
func (w *world) queue() []lease.Waiter {
	p, err := lease.ShowPool(context.Background(), w.st, "tests")
	w.must(err)
	return p.Queue
}

// start runs a pod with handlers of x, y and z until the function that it returns is called.
func (w *world) start(name string) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() {
		done <- New(w.st).Handle("x", w.handle).Handle("y", w.handle).Handle("z", w.handle).Run(ctx, &Options{Pod: name})
	}()
	return func() {
		w.t.Helper()
		cancel()
		w.must(<-done)
	}
}

// waitFor waits in the queue as any owner does, and says when it is in.
func (w *world) waitFor(owner string, take int) chan *lease.Lease {
	got := make(chan *lease.Lease, 1)
	go func() {
		l, err := lease.Hold(w.t.Context(), w.st, lease.AcquireRequest{Keys: []string{"pool:tests"}, Owner: owner, Take: take, Wait: time.Hour})
		if err == nil {
			got <- l
		}
	}()
	return got
}

// A pool that always has waiters does not starve a job: it has its place among them, and
// is served before those who came later. The place ends with the process of its pod.
func TestJobHasPlaceInQueue(t *testing.T) {
	w := newWorld(t)
	w.setPool(1)
	w.add(Job{Name: "x", Cron: "@yearly", Pool: "tests"})
	slot := w.holdSlot()
	before := w.waitFor("before", 1)
	wait.Until(t, "the one before is in the queue", func() bool { return len(w.queue()) == 1 })
	w.dueNow("x")
	stop := w.start("pod-1")
	wait.Until(t, "the job is in the queue", func() bool { return len(w.queue()) == 2 })
	if q := w.queue(); podOf(q[1].Owner) != "pod-1" || q[1].PID != os.Getpid() {
		t.Errorf("the queue is %+v", q)
	}
	after := w.waitFor("after", 1)
	wait.Until(t, "the one after is in the queue", func() bool { return len(w.queue()) == 3 })
	w.must(slot.Release(t.Context()))
	w.must((<-before).Release(t.Context()))
	late := <-after
	h := w.history("x")
	if len(h) != 1 || h[0].State != Done || h[0].Token >= late.Token() {
		t.Errorf("the one after got the slot at %d, and the job is %+v", late.Token(), h)
	}
	w.must(late.Release(t.Context()))
	stop()
	if q := w.queue(); len(q) > 0 {
		t.Errorf("still in the queue: %+v", q)
	}
}

// A job does not pass one who waits for all of the pool, even if a slot is free.
func TestJobDoesNotJump(t *testing.T) {
	w := newWorld(t)
	w.setPool(2)
	w.add(Job{Name: "x", Cron: "@yearly", Pool: "tests"})
	slot := w.holdSlot()
	all := w.waitFor("all", lease.TakeAll)
	wait.Until(t, "the one before is in the queue", func() bool { return len(w.queue()) == 1 })
	w.dueNow("x")
	stop := w.start("pod-1")
	wait.Until(t, "the job is in the queue", func() bool { return len(w.queue()) == 2 || len(w.history("x")) > 0 })
	if h := w.history("x"); len(h) > 0 {
		t.Errorf("it has not waited: %+v", h)
	}
	w.must(slot.Release(t.Context()))
	w.must((<-all).Release(t.Context()))
	wait.Until(t, "it has run", func() bool { h := w.history("x"); return len(h) == 1 && h[0].State == Done })
	stop()
}

// Of several pods one queues for a job. The claim takes the slot of its place.
func TestOnePodQueues(t *testing.T) {
	w := newWorld(t)
	w.setPool(1)
	w.add(Job{Name: "x", Cron: "@yearly", Pool: "tests"})
	slot := w.holdSlot()
	w.dueNow("x")
	a, b := w.start("pod-1"), w.start("pod-2")
	wait.Until(t, "a pod queues", func() bool { return len(w.queue()) > 0 })
	first := podOf(w.queue()[0].Owner)
	stop, other := a, b
	if first == "pod-2" {
		stop, other = b, a
	}
	stop()
	wait.Until(t, "the other one queues when that has ended", func() bool { q := w.queue(); return len(q) > 0 && podOf(q[0].Owner) != first })
	if q := w.queue(); len(q) != 1 {
		t.Errorf("the queue is %+v", q)
	}
	w.must(slot.Release(t.Context()))
	wait.Until(t, "it has run", func() bool { h := w.history("x"); return len(h) == 1 && h[0].State == Done })
	other()
}

// A job of which nothing is due any more leaves the queue, and so does a pod that ends.
func TestJobLeavesQueue(t *testing.T) {
	w := newWorld(t)
	w.setPool(1)
	for _, name := range []string{"x", "y", "z"} {
		w.add(Job{Name: name, Cron: "@yearly", Pool: "tests"})
	}
	slot := w.holdSlot()
	stop := w.start("pod-1")
	empty := func() bool { return len(w.queue()) == 0 }
	for name, end := range map[string]func(ChangeRequest) error{
		"x": func(r ChangeRequest) error { _, err := Pause(t.Context(), w.st, r); return err },
		"y": func(r ChangeRequest) error { return Remove(t.Context(), w.st, r) },
		"z": func(r ChangeRequest) error { w.add(Job{Name: r.Name, Cron: "@yearly"}); return nil },
	} {
		w.dueNow(name)
		wait.Until(t, name+" is in the queue", func() bool { return !empty() })
		w.must(end(ChangeRequest{Name: name, By: "tester"}))
		wait.Until(t, name+" leaves the queue", empty)
	}
	w.add(Job{Name: "y", Cron: "@yearly", Pool: "tests"})
	w.dueNow("y")
	wait.Until(t, "y is in the queue", func() bool { return !empty() })
	stop()
	if !empty() {
		t.Errorf("its pod has ended, and the queue is %+v", w.queue())
	}
	w.must(slot.Release(t.Context()))
}

// A job whose runs may overlap has a lock for each fire time. When another fire time of
// it goes first, the job keeps its one place in the queue: a second one kept a free slot
// from everybody until it lapsed.
func TestJobKeepsPlaceForAnotherFireTime(t *testing.T) {
	w := newWorld(t)
	w.setPool(1)
	w.add(Job{Name: "x", Cron: "@yearly", Pool: "tests", Overlap: OverlapAllow})
	slot := w.holdSlot()
	w.dueNow("x")
	stop := w.start("pod-1")
	queues := func() (keys []string) {
		w.must(w.st.View(context.Background(), driver.Query{Ranges: []driver.Range{{Prefix: "queue/job:"}}}, func(tx *store.Tx) error {
			recs, err := tx.Scan("queue/job:", 0)
			keys = nil
			for _, r := range recs {
				keys = append(keys, r.Key)
			}
			return err
		}))
		return keys
	}
	wait.Until(t, "the job is in the queue", func() bool { return len(w.queue()) == 1 })
	place, before := w.queue()[0].LeaseID, queues()
	_, err := Trigger(t.Context(), w.st, ChangeRequest{Name: "x", By: "tester"})
	w.must(err)
	wait.Until(t, "it waits for the trigger's lock", func() bool { return !slices.Equal(queues(), before) })
	if q, k := w.queue(), queues(); len(q) != 1 || q[0].LeaseID != place || len(k) != 1 {
		t.Errorf("it waits for %q, and the queue is %+v, before %s", k, q, place)
	}
	after := w.waitFor("after", 1)
	wait.Until(t, "the one after is in the queue", func() bool { return len(w.queue()) > 1 })
	w.must(slot.Release(t.Context()))
	late := <-after
	if h := w.history("x"); len(h) != 1 || h[0].Lease != place || h[0].Token >= late.Token() {
		t.Errorf("the one after got the slot at %d, and the job is %+v", late.Token(), h)
	}
	w.must(late.Release(t.Context()))
	wait.Until(t, "both have run", func() bool { h := w.history("x"); return len(h) == 2 && h[0].State == Done && h[1].State == Done })
	stop()
	if q, k := w.queue(), queues(); len(q)+len(k) > 0 {
		t.Errorf("left behind: %+v, %q", q, k)
	}
}

// A pod that runs as much as it may leaves the queue: it could not use a slot, and kept
// others from it until its ticket lapsed. It queues again when it can.
func TestBusyPodLeavesQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.setPool(1)
		jobs := []Job{{Name: "x", Cron: "@yearly", Pool: "tests"}, {Name: "y", Cron: "@yearly"}}
		w.add(jobs...)
		slot := w.holdSlot()
		w.dueNow("x")
		ended := make(chan struct{})
		stop := w.podFor(jobs, Options{MaxRunning: 1}, func(_ context.Context, f Fire) error {
			if f.Job == "y" {
				<-ended
			}
			return nil
		})
		time.Sleep(time.Second)
		if q := w.queue(); len(q) != 1 {
			t.Fatalf("the queue is %+v", q)
		}
		_, err := Trigger(t.Context(), w.st, ChangeRequest{Name: "y", By: "tester"})
		w.must(err)
		time.Sleep(poolKeep + 2*poolRest)
		if q := w.queue(); len(q) > 0 {
			t.Errorf("it cannot run x, and the queue is %+v", q)
		}
		close(ended)
		time.Sleep(time.Second)
		if q := w.queue(); len(q) != 1 {
			t.Errorf("it can run x again, and the queue is %+v", q)
		}
		w.must(slot.Release(t.Context()))
		time.Sleep(2 * poolRest)
		if h := w.history("x"); len(h) != 1 || h[0].State != Done {
			t.Errorf("x has not run: %+v", h)
		}
		stop()
	})
}
