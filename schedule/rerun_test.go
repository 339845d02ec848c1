package schedule

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

// Each operation asks for the same records in each run of its transaction: on a store
// that is not next door the clock has moved on at each look. A claim must
// not depend on the second either: a look at a far git server may take that long.
func TestEveryOperationOnAFarStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := drivertest.FarRead
		w := newWorldOn(t, store.New(drivertest.NewRerun(t, memstore.New(), func() { time.Sleep(takes) })))
		slowly := func(fn func()) {
			takes = 1500 * time.Millisecond
			fn()
			takes = drivertest.FarRead
		}
		var jobs []Job
		for i, overlap := range []Overlap{OverlapSkip, OverlapQueue, OverlapAllow} {
			for j, misfire := range []Misfire{MisfireSkip, MisfireOnce, MisfireAll} {
				crash := []OnCrash{CrashLost, CrashRetry}[(i+j)%2]
				jobs = append(jobs, Job{Name: fmt.Sprintf("j%d%d", i, j), Cron: "*/2 * * * * *", Overlap: overlap, Misfire: misfire, OnCrash: crash, Keep: 3})
			}
		}
		for range 3 {
			w.apply(ApplyRequest{Jobs: jobs})
			for _, j := range jobs {
				w.trigger(j.Name)
				w.trigger(j.Name)
				w.everything(j.Name, slowly)
			}
			w.apply(ApplyRequest{Jobs: jobs[1:], Prune: true})
			w.must(Remove(t.Context(), w.st, ChangeRequest{Name: jobs[1].Name}))
			_, err := Cleanup(t.Context(), w.st, false)
			w.must(err)
		}
	})
}

func (w *world) apply(r ApplyRequest) {
	w.t.Helper()
	_, err := Apply(w.t.Context(), w.st, r)
	w.must(err)
}

func (w *world) trigger(name string) {
	w.t.Helper()
	_, err := Trigger(w.t.Context(), w.st, ChangeRequest{Name: name, By: "tester"})
	w.must(err)
}

// everything that may become of one job.
func (w *world) everything(name string, slowly func(func())) {
	w.t.Helper()
	ctx := w.t.Context()
	for i := range 10 {
		switch i {
		case 3:
			w.outage(time.Minute)
		case 6:
			_, err := Pause(ctx, w.st, ChangeRequest{Name: name})
			w.must(err)
		case 7:
			_, err := Resume(ctx, w.st, ChangeRequest{Name: name})
			w.must(err)
		}
		var c claimed
		var err error
		slowly(func() {
			c, err = claimNext(ctx, w.st, candidate{job: name, key: "job:" + name, ttl: time.Minute}, lease.AcquireRequest{Owner: "pod-1"})
		})
		var done *settled
		switch {
		case errors.Is(err, errBlocked) || errors.Is(err, errNothing) || errors.As(err, &done):
		case err != nil:
			w.t.Errorf("%s: %v", name, err)
		case i%3 == 0: // its pod dies
			_ = c.lease.ReleaseWith(ctx, func(context.Context) error { return nil })
			time.Sleep(2 * time.Minute)
		default:
			w.must(c.lease.ReleaseWith(ctx, func(ctx context.Context) error {
				_, err := finish(ctx, w.st, c, ending{state: Done})
				return err
			}))
		}
		time.Sleep(time.Second)
	}
	_, err := Show(ctx, w.st, name)
	w.must(err)
	_, _, err = Times(ctx, w.st, name, 3)
	w.must(err)
}
