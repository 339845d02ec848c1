package task_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

func TestResetOfWhatIsHeld(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("", "b", "a"), in("", "c", "b"), in("", "other"))
	w.must(w.do(task.Complete, "A", 0, "a", "b"))
	tokenC := w.claim("B", "c")
	tokenOther := w.claim("B", "other")
	w.acquire("C", "b") // locked, though not claimed
	w.unchanged("a refused reset", func() {
		for _, r := range []task.ResetRequest{
			{Tasks: []string{"a"}, Cascade: true},
			{Tasks: []string{"a"}, Cascade: true, DryRun: true},
		} {
			_, err := w.reset(r)
			busy := as[*task.BusyError](w, err)
			var who []string
			for _, h := range busy.Holders {
				who = append(who, h.Key+" "+h.Owner)
			}
			equal(w, "holders", who, []string{"b C", "c B"})
		}
		_, err := w.reset(task.ResetRequest{Tasks: []string{"c"}})
		as[*task.BusyError](w, err)
		_, err = w.reset(task.ResetRequest{Tasks: []string{"none"}})
		as[*task.NotFoundError](w, err)
		ids, err := w.reset(task.ResetRequest{Tasks: []string{"a"}, Cascade: true, Force: true, DryRun: true})
		w.must(err)
		equal(w, "would reset", ids, []string{"a", "b", "c"})
	})
	ids, err := w.reset(task.ResetRequest{Tasks: []string{"a"}, Cascade: true, Force: true})
	w.must(err)
	equal(w, "reset", ids, []string{"a", "b", "c"})
	w.holds("other B")
	for _, id := range ids {
		w.status(id, task.Pending)
	}
	w.ready("a")
	w.want(w.do(task.Complete, "B", tokenC, "c"), lease.ErrLost)
	w.want(w.renew("C", "b"), lease.ErrLost)
	w.must(w.do(task.Complete, "B", tokenOther, "other"))
}

// What was repeated with a token before a reset is not repeated after it.
func TestResetForgetsTokens(t *testing.T) {
	w := newWorld(t)
	w.add(in("", "a"))
	token := w.claim("A", "a")
	w.must(w.do(task.Complete, "A", token, "a"))
	_, err := w.reset(task.ResetRequest{Tasks: []string{"a"}})
	w.must(err)
	w.want(w.do(task.Complete, "A", token, "a"), lease.ErrLost)

	token = w.claim("A", "a")
	w.must(w.do(task.Unclaim, "A", token, "a"))
	_, err = w.reset(task.ResetRequest{Tasks: []string{"a"}}) // of a pending task
	w.must(err)
	w.want(w.do(task.Unclaim, "A", token, "a"), lease.ErrLost)
	equal(w, "attempts", w.show("a").Attempts, 0)
}

// A break of one task's lock ends the whole lease, as everywhere.
func TestForceEndsTheWholeClaim(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("T", "b"), in("T", "c"))
	w.claim("A", "a", "b")
	w.claim("A/x", "c")
	_, err := w.reset(task.ResetRequest{Tasks: []string{"a"}, Force: true})
	w.must(err)
	w.holds()
	w.status("b", task.Pending)
	w.status("c", task.Pending)
}

func TestResetAfterExpiry(t *testing.T) {
	bubble(t, func(w *world) {
		w.add(in("S", "a"))
		token := w.claim("A", "a")
		time.Sleep(2 * time.Hour)
		_, err := w.reset(task.ResetRequest{Tasks: []string{"a"}}) // no force is needed
		w.must(err)
		w.want(w.do(task.Complete, "A", token, "a"), lease.ErrLost)
		w.want(w.renew("A", "a"), lease.ErrLost)
	})
}

// A reader sees a chain done, or undone, and nothing between; nor does one
// slip in who depends on the chain and is left out.
func TestCascadeIsOneCommit(t *testing.T) {
	w := large(t)
	ids := w.add(in("", "c0"), in("", "c1", "c0"), in("", "c2", "c1"), in("", "c3", "c2"), in("", "c4", "c0", "c3"))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() { // someone adds dependants all the time
		for {
			select {
			case <-stop:
				return
			default:
			}
			out, err := task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{{Title: "x", DependsOn: []string{"c2"}}}})
			w.want(err, nil)
			if err == nil {
				_, err = task.Delete(w.ctx, w.st, task.RemoveRequest{Tasks: []string{out.Tasks[0].ID}})
				w.want(err, nil)
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				half(w)
			}
		})
	}
	for range 60 {
		w.must(w.do(task.Skip, "A", 0, ids...))
		_, err := w.reset(task.ResetRequest{Tasks: []string{"c0"}, Cascade: true, Force: true})
		w.must(err)
	}
	close(stop)
	wg.Wait()
}

// half reads the chain at one revision.
func half(w *world) {
	var statuses []task.Status
	err := w.st.View(w.ctx, driver.Query{Ranges: []driver.Range{{Prefix: "task/c"}}}, func(tx *store.Tx) error {
		statuses = nil
		recs, err := tx.Scan("task/c", 0)
		for _, rec := range recs {
			e, err := store.Decode[task.Task](tx, rec)
			if err != nil {
				return err
			}
			statuses = append(statuses, e.Value.Status)
		}
		return err
	})
	if err != nil || len(slices.Compact(statuses)) != 1 {
		w.Errorf("half a change was seen: %v %v", statuses, err)
	}
}
