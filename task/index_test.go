package task_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// crowd is a world where many tasks are in progress, more than a claim looks at.
func crowd(t *testing.T, fn func(w *world)) {
	t.Helper()
	near(t, func(w *world) {
		w.add(many(40, func(i int) task.New {
			return task.New{ID: fmt.Sprintf("n%02d", i), Title: fmt.Sprintf("task %02d", i)}
		})...)
		for i := range 20 {
			w.nextIs(fmt.Sprintf("w%02d", i), fmt.Sprintf("n%02d", i))
			time.Sleep(time.Minute)
		}
		fn(w)
	})
}

// Whatever ends a claim, its task is next again at its rank, however many others are
// in progress and ready.
func TestEndedClaimIsNextAtItsRank(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"release": func(w *world) { w.must(w.release("w10", "n10")) },
		"break":   func(w *world) { w.breakKey("n10") },
		"unclaim": func(w *world) { w.must(w.do(task.Unclaim, "w10", 0, "n10")) },
		"a shorter ttl": func(w *world) {
			_, err := w.tryAcquire(lease.AcquireRequest{Owner: "w10", Keys: []string{"n10"}, TTL: time.Minute})
			w.must(err)
			time.Sleep(2 * time.Minute)
		},
		"session": func(w *world) {
			_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "w10", All: true})
			w.must(err)
		},
		"reset": func(w *world) {
			_, err := w.reset(task.ResetRequest{Tasks: []string{"n10"}, Force: true})
			w.must(err)
		},
		"silence": func(w *world) {
			for range 3 {
				time.Sleep(25 * time.Minute)
				w.must(w.renew("A", "n20"))
				for i := range 20 {
					if i != 10 {
						w.must(w.renew(fmt.Sprintf("w%02d", i), fmt.Sprintf("n%02d", i)))
					}
				}
			}
		},
		"cleanup": func(w *world) {
			time.Sleep(35 * time.Minute)
			for i := range 20 {
				if i != 10 {
					w.must(w.renew(fmt.Sprintf("w%02d", i), fmt.Sprintf("n%02d", i)))
				}
			}
			time.Sleep(20 * time.Minute)
			_, err := lease.Cleanup(w.ctx, w.st, lease.CleanupRequest{By: "admin"})
			w.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			crowd(t, func(w *world) {
				w.nextIs("A", "n20")
				end(w)
				w.nextIs("A", "n10")
				w.nextIs("A", "n21")
			})
		})
	}
}

// Claims that expire are next in the order of the list, not in that of their expiry,
// and among the tasks that were ready all the time.
func TestExpiredClaimsKeepTheOrder(t *testing.T) {
	crowd(t, func(w *world) {
		w.add(task.New{ID: "last", Title: "last", Priority: task.Low})
		_, err := task.ClaimTasks(w.ctx, w.st, task.ClaimRequest{Tasks: []string{"last"}, Acquire: lease.AcquireRequest{Owner: "B", TTL: time.Minute}})
		w.must(err)
		time.Sleep(2 * time.Hour)
		for i := range 40 {
			w.nextIs("A", fmt.Sprintf("n%02d", i))
		}
		w.nextIs("A", "last")
		w.nextIs("A", "")
	})
}

// A claim that goes on for longer than its ttl is looked at once for each ttl, not by
// every claim of another task.
func TestRenewedClaimsAreLookedAtOnce(t *testing.T) {
	near(t, func(w *world) {
		w.mem.asleep = true
		w.add(many(400, func(i int) task.New { return task.New{ID: fmt.Sprint("n", i), Title: fmt.Sprint("task ", i)} })...)
		for i := range 150 {
			_, err := w.next(fmt.Sprint("w", i))
			w.must(err)
		}
		reads := func() int64 {
			before := w.mem.reads.Load()
			id, err := w.next("A")
			w.must(err)
			n := w.mem.reads.Load() - before
			w.must(w.do(task.Complete, "A", 0, id))
			return n
		}
		few := reads()
		for range 3 {
			for range 3 {
				time.Sleep(25 * time.Minute)
				for i := range 150 {
					w.must(w.renew(fmt.Sprint("w", i), fmt.Sprint("n", i)))
				}
			}
			for range 4 { // these move the entries
				reads()
			}
			if n := reads(); n > few {
				t.Errorf("%d reads for a claim when the others have been renewed, %d before", n, few)
			}
		}
		for _, fault := range w.mem.judge() {
			t.Error(fault)
		}
	})
}

// rewrite changes a record behind the back of the rules.
func (w *world) rewrite(key string, value any) {
	w.Helper()
	write := driver.Write{Key: key}
	if value != nil {
		var err error
		write.Value, err = json.Marshal(value)
		w.must(err)
	}
	_, err := w.mem.Store.Commit(w.ctx, driver.Batch{Writes: []driver.Write{write}})
	w.must(err)
}

// entriesOf returns the keys of a task's entries in ready/.
func (w *world) entriesOf(id string) (keys []string) {
	for key := range w.mem.dump() {
		if strings.HasPrefix(key, "ready/") && strings.HasSuffix(key, "-"+id) {
			keys = append(keys, key)
		}
	}
	return keys
}

// An older tasklock that moves a task leaves the entry of its claim in the section where
// it was: the task is next in its own section alone.
func TestTaskThatAnOlderTasklockMoved(t *testing.T) {
	near(t, func(w *world) {
		w.mem.asleep = true
		w.add(in("S", "a"), in("U", "b"))
		w.claim("A", "a")
		time.Sleep(2 * time.Hour)
		n := w.show("a").Task
		n.Section, n.ClaimDue = "U", nil
		w.rewrite("task/a", n)
		w.rewrite(fmt.Sprintf("ready/U/500-%s-a", n.CreatedAt.UTC().Format("20060102T150405.000000000Z")), map[string]string{"id": "a"})
		for section, want := range map[string]string{"S": "", "U": "a"} {
			out, err := task.Next(w.ctx, w.st, task.NextRequest{Section: section, Acquire: lease.AcquireRequest{Owner: "B"}})
			if out.Task.ID != want {
				t.Errorf("next in %s is %q, %v, want %q", section, out.Task.ID, err, want)
			}
		}
	})
}

// A claimer without a rival takes the tasks in their order, also where the first ones
// listed are not free: held by hand, by another or by itself, or listed by mistake.
func TestLoneClaimerKeepsTheOrder(t *testing.T) {
	near(t, func(w *world) {
		w.mem.asleep = true
		w.add(many(30, func(i int) task.New {
			return task.New{ID: fmt.Sprintf("n%02d", i), Title: fmt.Sprintf("task %02d", i)}
		})...)
		w.acquire("B", "n00")
		w.acquire("A", "n01")
		n := w.show("n02").Task
		n.Status = task.Completed
		w.rewrite("task/n02", n)
		for i := 3; i < 30; i++ {
			w.nextIs("A", fmt.Sprintf("n%02d", i))
			if left := w.entriesOf("n02"); len(left) > 0 {
				t.Errorf("the index lists a completed task: %q", left)
			}
		}
		w.nextIs("A", "")
	})
}

// A tasklock that knows no place but the rank leaves entries that are not where they
// belong. Each of them is found, and the claim that meets it moves it.
func TestIndexOfAnOlderTasklock(t *testing.T) {
	rank := func(w *world, id string) string {
		return fmt.Sprintf("ready/-/500-%s-%s", w.show(id).CreatedAt.UTC().Format("20060102T150405.000000000Z"), id)
	}
	for name, c := range map[string]struct {
		old  func(w *world) // does to n03 what an older version would
		then string         // the next task after it
	}{
		"claims": {func(w *world) { // it stays at its rank
			w.rewrite(w.entriesOf("n03")[0], nil)
			w.rewrite(rank(w, "n03"), map[string]string{"id": "n03"})
			n := w.show("n03").Task
			n.ClaimDue = nil
			w.rewrite("task/n03", n)
		}, "n20"},
		"writes a claimed task": {func(w *world) { // it drops the due time
			n := w.show("n03").Task
			n.ClaimDue = nil
			w.rewrite("task/n03", n)
		}, "n20"},
		"unclaims": {func(w *world) {
			w.must(w.release("w03", "n03"))
			w.rewrite(rank(w, "n03"), nil)
			n := w.show("n03").Task
			n.Status, n.ClaimedBy, n.ClaimedAt, n.ClaimLease, n.ClaimDue = task.Pending, "", nil, "", nil
			w.rewrite("task/n03", n)
		}, "n03"},
		"releases": {func(w *world) { // it puts nothing back
			w.must(w.release("w03", "n03"))
			w.rewrite(rank(w, "n03"), nil)
		}, "n03"},
		"completes": {func(w *world) {
			w.must(w.release("w03", "n03"))
			w.rewrite(rank(w, "n03"), nil)
			n := w.show("n03").Task
			n.Status, n.ClaimedBy, n.ClaimedAt, n.ClaimLease, n.ClaimDue = task.Completed, "", nil, "", nil
			w.rewrite("task/n03", n)
		}, "n20"},
	} {
		t.Run(name, func(t *testing.T) {
			crowd(t, func(w *world) {
				w.mem.asleep = true
				c.old(w)
				for i := range 20 { // the others go on
					if id := fmt.Sprintf("n%02d", i); id != "n03" || c.then == "n20" && name != "completes" {
						w.must(w.renew(fmt.Sprintf("w%02d", i), id))
					}
				}
				time.Sleep(50 * time.Minute) // the first due times have passed
				w.nextIs("A", c.then)
				for _, fault := range w.mem.judge() {
					t.Error(fault)
				}
			})
		})
	}
}
