package schedule

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/shutdown"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

// handled are jobs without a command.
func handled(n int, cron string) (jobs []Job) {
	for i := range n {
		jobs = append(jobs, Job{Name: fmt.Sprintf("job-%05d", i), Cron: cron})
	}
	return jobs
}

// podFor runs one pod with the same handler for all jobs.
func (w *world) podFor(jobs []Job, o Options, fn Handler) (stop func()) {
	s := New(w.st)
	for _, j := range jobs {
		s.Handle(j.Name, fn)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, &o) }()
	return func() {
		cancel()
		w.must(<-ended)
	}
}

// A pod works through what is due as fast as runs end, however few of them it may run
// at a time: none waits for the next look, and none is late because of that.
func TestManyJobsDueInOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		jobs := handled(n, "30 0 0 1 1 *")
		w := newWorld(t, jobs...)
		var fired, late atomic.Int64
		start := time.Date(2000, 1, 1, 0, 0, 30, 0, time.UTC)
		stop := w.podFor(jobs, Options{MaxRunning: 4}, func(context.Context, Fire) error {
			fired.Add(1)
			late.Store(max(late.Load(), int64(time.Since(start))))
			time.Sleep(time.Millisecond) // longer than nothing: the queue moves when a run ends
			return nil
		})
		time.Sleep(2 * time.Minute)
		stop()
		if fired.Load() != n {
			t.Errorf("%d of %d jobs fired", fired.Load(), n)
		}
		if most := time.Duration(late.Load()); most > 2*n/4*time.Millisecond {
			t.Errorf("the last one began after %s, four at a time take %s", most, n/4*time.Millisecond)
		}
	})
}

// A change of one job does not make a pod read the others.
func TestAChangeReadsOnlyWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cost := func(idle int) drivertest.Counts {
			count := drivertest.NewCounted(memstore.New())
			jobs := append(handled(idle, "@yearly"), Job{Name: "busy", Cron: "* * * * * *"})
			w := newWorldOn(t, store.New(count), jobs...)
			var fired atomic.Int64
			stop := w.podFor(jobs, Options{}, func(context.Context, Fire) error { fired.Add(1); return nil })
			time.Sleep(5500 * time.Millisecond) // it has read all, and no fire time is at the edge of what is counted
			count.Take()
			fired.Store(0)
			time.Sleep(30 * time.Second)
			got := count.Take()
			stop()
			if fired.Load() != 30 {
				t.Errorf("fired %d times in 30 seconds", fired.Load())
			}
			return got
		}
		few, many := cost(10), cost(1000)
		t.Logf("30 fires beside 10 idle jobs: %+v, beside 1,000: %+v", few, many)
		if few.Reads > 30*5 { // a look for each change, one for the claim and one for the end
			t.Errorf("%d reads for 30 fires", few.Reads)
		}
		if many.Records > 2*few.Records {
			t.Errorf("%d records were read for 30 fires beside 1,000 idle jobs, %d beside 10", many.Records, few.Records)
		}
	})
}

// A pod does not see when the record of a job that it remembers is deleted. It finds
// out when it tries to claim it, once.
func TestRemovedJobIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := []Job{{Name: "gone", Cron: "30 0 0 1 1 *"}, {Name: "busy", Cron: "* * * * * *"}}
		w := newWorld(t, jobs...)
		var attempts, fired atomic.Int64
		log := func(e LogEntry) {
			if e.Event == "skipping" && e.Job == "gone" {
				attempts.Add(1)
			}
		}
		stop := w.podFor(jobs, Options{Log: log}, func(_ context.Context, f Fire) error {
			if f.Job == "gone" {
				fired.Add(1)
			}
			return nil
		})
		time.Sleep(10 * time.Second)
		w.must(Remove(t.Context(), w.st, ChangeRequest{Name: "gone", By: "tester"}))
		time.Sleep(40 * time.Second)
		stop()
		if fired.Load() != 0 || attempts.Load() != 1 {
			t.Errorf("a removed job fired %d times and was tried %d times", fired.Load(), attempts.Load())
		}
	})
}

// A look watches some of many runs on other pods, and chooses them once: it does not
// read others at each run of its function.
func TestManyRunsOnOtherPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := drivertest.NewCounted(memstore.New())
		jobs := handled(1000, "@yearly")
		w := newWorldOn(t, store.New(count), jobs...)
		for _, some := range [][]Job{jobs[:500], jobs[500:]} { // a commit has a limit
			_, err := w.st.Update(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: dueKind}}}, func(tx *store.Tx) error {
				for _, j := range some {
					d, err := store.Peek[dueRecord](tx, dueKind+j.Name)
					if err != nil {
						return err
					}
					d.Value.Running = []runRecord{{At: time.Now(), Key: lockPrefix + j.Name, Lease: "other/" + j.Name, Attempt: 1}}
					if err := putDue(tx, d.Value); err != nil {
						return err
					}
				}
				return nil
			})
			w.must(err)
		}
		s := New(w.st)
		for _, j := range jobs {
			s.Handle(j.Name, w.handle)
		}
		p, err := s.newPod(nil)
		w.must(err)
		p.Steps = shutdown.New(t.Context(), shutdown.Options{})
		defer p.Close()
		count.Take()
		_, err = p.look()
		w.must(err)
		if c := count.Take(); c.Reads > 5 {
			t.Errorf("%+v for one look", c)
		}
	})
}

// busy is a store in which each read finds that another run has begun elsewhere.
type busy struct {
	driver.Store
	begin func()
}

func (b *busy) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	if b.begin != nil {
		b.begin()
	}
	return b.Store.Read(ctx, q)
}

// A look ends although runs begin while it reads, and the next one comes at once.
func TestLookWhileRunsBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &busy{Store: memstore.New()}
		count := drivertest.NewCounted(d)
		jobs := handled(300, "@yearly")
		w := newWorldOn(t, store.New(count), jobs...)
		s := New(w.st)
		for _, j := range jobs {
			s.Handle(j.Name, w.handle)
		}
		p, err := s.newPod(nil)
		w.must(err)
		p.Steps = shutdown.New(t.Context(), shutdown.Options{})
		defer p.Close()
		_, err = p.look()
		w.must(err)
		direct := store.New(d.Store)
		d.begin = func() {
			job := jobs[0].Name
			jobs = jobs[1:]
			_, err := direct.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
				e, err := store.Get[dueRecord](tx, dueKind+job)
				if err != nil {
					return err
				}
				e.Value.Running = []runRecord{{At: time.Now(), Key: lockPrefix + job, Lease: "other/" + job, Attempt: 1}}
				return putDue(tx, e.Value)
			})
			w.must(err)
		}
		count.Take()
		v, err := p.look()
		w.must(err)
		if c := count.Take(); c.Reads > 5 {
			t.Errorf("%+v for one look", c)
		}
		d.begin = nil
		seen := len(v.keys)
		p.sleep(v) // returns, because there are runs that the look does not watch
		if v, err = p.look(); err != nil || len(v.keys) <= seen {
			t.Errorf("the next look watches %d runs after %d, %v", len(v.keys), seen, err)
		}
	})
}

// slow is a store that takes some time to read.
type slow struct{ driver.Store }

func (s slow) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	time.Sleep(50 * time.Millisecond)
	return s.Store.Read(ctx, q)
}

// A pod whose looks take long, because it has many jobs or the store is slow, looks
// less often when there is always something new: otherwise it would do nothing else.
func TestLongLooksAreFewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := drivertest.NewCounted(memstore.New())
		jobs := handled(2, "@yearly")
		w := newWorldOn(t, store.New(slow{count}), jobs...)
		stop := w.podFor(jobs, Options{}, func(context.Context, Fire) error { return nil })
		time.Sleep(10 * time.Second)
		read, err := count.Store.Read(t.Context(), driver.Query{Keys: []string{dueKind + jobs[0].Name}})
		w.must(err)
		count.Take()
		for range 500 {
			_, err := count.Store.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: read.Records[0].Key, Value: read.Records[0].Value}}})
			w.must(err)
			time.Sleep(20 * time.Millisecond)
		}
		if c := count.Take(); c.Reads < 10 || c.Reads > 30 {
			t.Errorf("in ten seconds %+v", c)
		}
		stop()
	})
}
