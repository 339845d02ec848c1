package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

// waiting is how many triggers of a job wait for a pod.
func (w *world) waiting(name string) int {
	w.t.Helper()
	job, err := Show(w.t.Context(), w.st, name)
	w.must(err)
	return job.Triggered
}

func TestTriggerRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Job{Name: "a", Cron: "@daily"}, Job{Name: "b", Cron: "@daily"})
		r := ChangeRequest{Name: "a", By: "alice", ID: "req-1"}
		first, err := Trigger(t.Context(), w.st, r)
		w.must(err)
		time.Sleep(time.Minute)
		again, err := Trigger(t.Context(), w.st, r)
		w.must(err)
		if again.RunID != first.RunID || !again.At.Equal(first.At) || !again.Repeated || first.Repeated || w.waiting("a") != 1 {
			t.Errorf("%+v after %+v, %d wait", again, first, w.waiting("a"))
		}
		other := r
		other.Name = "b"
		if _, err := Trigger(t.Context(), w.st, other); !errors.As(err, new(*lease.ReusedError)) || w.waiting("b") != 0 {
			t.Errorf("the same id for another job: %v", err)
		}
		other.By = "bob"
		if out, err := Trigger(t.Context(), w.st, other); err != nil || out.Repeated || w.waiting("b") != 1 {
			t.Errorf("someone else may use the same id: %+v, %v", out, err)
		}
		w.must(Remove(t.Context(), w.st, ChangeRequest{Name: "a", By: "alice"}))
		if again, err := Trigger(t.Context(), w.st, r); err != nil || again.RunID != first.RunID {
			t.Errorf("after the job was removed: %+v, %v", again, err)
		}
	})
}

// Sixteen processes that send one request at once fire the job once, and all of them
// answer with that fire time.
func TestTriggerOnceRaced(t *testing.T) {
	mem := memstore.New()
	w := newWorldOn(t, store.New(mem), Job{Name: "a", Cron: "@daily"})
	for round := range 20 {
		var got [16]TriggerResult
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				var err error
				if got[i], err = Trigger(t.Context(), store.New(mem), ChangeRequest{Name: "a", By: "alice", ID: fmt.Sprint("r", round)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, g := range got {
			if g.RunID != got[0].RunID {
				t.Errorf("%s and %s", g.RunID, got[0].RunID)
			}
		}
		if n := w.waiting("a"); n != round+1 {
			t.Fatalf("%d triggers after %d requests", n, round+1)
		}
	}
}

// A caller that learns nothing sends its request again, as another process: the
// request fires the job once, even if the first commit arrives late.
func TestTriggerAfterACutConnection(t *testing.T) {
	for name, applied := range map[string]bool{"before the commit": false, "after the commit": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				w := newWorldOn(t, store.New(mem), Job{Name: "a", Cron: "@daily"})
				r := ChangeRequest{Name: "a", By: "alice", ID: "req-1"}
				cut := &drivertest.Cut{Store: mem, Applied: applied}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := Trigger(ctx, store.New(cut), r); !errors.Is(err, store.ErrUnknown) {
					t.Errorf("cut: %v", err)
				}
				if out, err := Trigger(t.Context(), w.st, r); err != nil || out.Repeated != applied {
					t.Errorf("again: %+v, %v", out, err)
				}
				if _, err := mem.Commit(t.Context(), *cut.Sent); err == nil {
					t.Error("a commit that arrives late has a second effect")
				}
				if n := w.waiting("a"); n != 1 {
					t.Errorf("%d triggers", n)
				}
			})
		})
	}
}
