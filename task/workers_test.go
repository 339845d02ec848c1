package task_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// As many owners work in a section as it has workers, each on several tasks.
func TestSectionForSeveral(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.section(task.SectionRequest{Name: "S", New: true, Workers: ptr(2)}))
		w.add(in("S", "a"), in("S", "b"), in("S", "c"), in("S", "d"))
		w.claim("A", "a")
		w.claim("A", "d") // in the slot that it has
		w.nextIs("B", "b")
		_, err := w.next("C")
		none := as[*task.NothingReadyError](w, err)
		if len(none.Closed) != 1 || none.Closed[0].Workers != 2 || none.Closed[0].Task.Section != "S" {
			t.Errorf("%+v", none.Closed)
		}
		as[*lease.HeldError](w, errOf(w.tryClaim("C", "c")))
		w.nextIs("B/child", "c")
		w.must(w.do(task.Complete, "A", 0, "a"))
		_, err = w.next("C")
		as[*task.NothingReadyError](w, err) // A still has d
		w.must(w.do(task.Unclaim, "A", 0, "d"))
		w.nextIs("C", "d")
	})
}

// Who acquires the section has all of it: nobody works there, and nobody enters.
func TestSectionOfSeveralForOne(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.section(task.SectionRequest{Name: "S", New: true, Workers: ptr(2)}))
		w.add(in("S", "a"), in("S", "b"))
		w.claim("A", "a")
		_, err := w.tryAcquire(lease.AcquireRequest{Keys: []string{"section:S"}, Owner: "B"})
		as[*lease.HeldError](w, err)
		w.must(w.do(task.Complete, "A", 0, "a"))
		g := w.acquire("B", "section:S")
		if len(g.Keys) != 3 || g.Keys[0].Name != "section:S" {
			t.Errorf("%+v", g.Keys)
		}
		as[*lease.HeldError](w, errOf(w.tryClaim("A", "b")))
		w.claim("B", "b")
		w.unchanged("opening it to any", func() {
			as[*task.StateError](w, w.section(task.SectionRequest{Name: "S", Workers: ptr(task.AnyWorkers)}))
		})
		w.must(w.section(task.SectionRequest{Name: "S", Workers: ptr(5)}))
		as[*lease.HeldError](w, errOf(w.tryClaim("A", "b")))
		w.must(w.do(task.Complete, "B", 0, "b"))
		w.must(w.release("B", "section:S"))
		w.holds()
	})
}

// A smaller number takes nothing away, and lets nobody in until fewer are left.
func TestSectionDrains(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.section(task.SectionRequest{Name: "S", New: true, Workers: ptr(3)}))
		w.add(in("S", "a"), in("S", "b"), in("S", "c"), in("S", "d"))
		w.claim("A", "a")
		w.claim("B", "b")
		w.must(w.section(task.SectionRequest{Name: "S", Workers: ptr(1)}))
		as[*lease.HeldError](w, errOf(w.tryClaim("C", "c")))
		w.must(w.renew("A", "a"))
		w.must(w.do(task.Complete, "A", 0, "a"))
		as[*lease.HeldError](w, errOf(w.tryClaim("C", "c")))
		w.must(w.do(task.Complete, "B", 0, "b"))
		w.claim("C", "c")
		as[*lease.HeldError](w, errOf(w.tryClaim("D", "d")))
		w.must(w.section(task.SectionRequest{Name: "S", Workers: ptr(task.AnyWorkers)}))
		w.claim("D", "d")
		w.unchanged("a number while any work there", func() {
			as[*task.BusyError](w, w.section(task.SectionRequest{Name: "S", Workers: ptr(2)}))
		})
	})
}

func TestSectionWorkersAreRefused(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("C#", "b"))
	for _, n := range []int{0, -2, 17} {
		as[*lease.InvalidError](w, w.section(task.SectionRequest{Name: "S", Workers: &n}))
	}
	as[*lease.InvalidError](w, w.section(task.SectionRequest{Name: "C#", Workers: ptr(2)}))
	w.claim("A", "a")
	as[*task.StateError](w, w.section(task.SectionRequest{Name: "S", Workers: ptr(2)}))
	w.must(w.do(task.Unclaim, "A", 0, "a"))
	w.must(w.section(task.SectionRequest{Name: "S", Workers: ptr(2)}))
	_, err := lease.SetPool(w.ctx, w.st, lease.SetPoolRequest{Name: "section:S", Slots: 9, By: "A"})
	as[*lease.InvalidError](w, err)
	as[*lease.InvalidError](w, lease.RemovePool(w.ctx, w.st, lease.RemovePoolRequest{Name: "section:S", By: "A"}))
	_, err = w.tryAcquire(lease.AcquireRequest{Keys: []string{"pool:section:S"}, Owner: "A", Slots: 9})
	as[*lease.InvalidError](w, err)
}

// However many claim at once, no more work in the section than it has workers.
func TestSectionRace(t *testing.T) {
	w := newWorld(t)
	w.must(w.section(task.SectionRequest{Name: "S", New: true, Workers: ptr(3)}))
	const all = 30
	for i := range all {
		w.add(in("S", fmt.Sprint("t", i)))
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	var done atomic.Int32
	var workers sync.WaitGroup
	for i := range 12 {
		owner := fmt.Sprint("w", i)
		workers.Go(func() {
			for done.Load() < all {
				out, err := task.Next(ctx, w.st, task.NextRequest{Claim: true, Wait: time.Minute, Acquire: lease.AcquireRequest{Owner: owner}})
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				in, err := task.Sections(w.ctx, w.st, "S")
				if err != nil || len(in.Sections[0].Owners) > 3 {
					t.Errorf("%v: %q work there", err, in.Sections[0].Owners)
				}
				_, err = task.ChangeStatus(w.ctx, w.st, task.StatusRequest{Verb: task.Complete, Tasks: []string{out.Task.ID}, Owner: owner, Token: out.Grant.Token})
				if err != nil {
					t.Error(err)
				}
				if done.Add(1) == all {
					cancel()
				}
			}
		})
	}
	workers.Wait()
}

// A rename takes along tasks, settings and dependencies.
func TestRenameSection(t *testing.T) {
	w := newWorld(t)
	w.must(w.section(task.SectionRequest{Name: "S", New: true, Workers: ptr(2), Priority: ptr(task.High)}))
	w.must(w.section(task.SectionRequest{Name: "Late", New: true, On: []string{"S"}}))
	for i := range 50 {
		w.add(in("S", fmt.Sprint("t", i)))
	}
	w.add(in("Late", "z"))
	w.claim("A", "t1")
	rename := func(to string) error {
		_, err := task.RenameSection(w.ctx, w.st, task.RenameRequest{From: "S", To: to, By: "A"})
		return err
	}
	w.unchanged("a rename while A works", func() { as[*task.StateError](w, rename("T")) })
	w.must(w.do(task.Complete, "A", 0, "t1"))
	w.unchanged("a name that is taken", func() { as[*task.StateError](w, rename("Late")) })
	w.must(rename("T"))
	got, err := task.Sections(w.ctx, w.st, "T")
	w.must(err)
	if s := got.Sections[0]; s.Workers != 2 || s.Priority != task.High || s.Tasks[task.Pending] != 49 || s.Tasks[task.Completed] != 1 || s.MovesFrom != "" {
		t.Errorf("%+v", s)
	}
	got, err = task.Sections(w.ctx, w.st, "Late")
	w.must(err)
	if s := got.Sections[0]; !slices.Equal(s.DependsOn, []string{"T"}) {
		t.Errorf("%+v", s)
	}
	_, err = task.Sections(w.ctx, w.st, "S")
	as[*task.NotFoundError](w, err)
	w.claim("A", "t2")
	w.claim("B", "t3")
	as[*lease.HeldError](w, errOf(w.tryClaim("C", "t4")))
}

// A rename that was interrupted leaves a section in which nobody can work. The same
// request goes on.
func TestRenameGoesOn(t *testing.T) {
	w := newWorld(t)
	for i := range 50 {
		w.add(in("S", fmt.Sprint("t", i)))
	}
	w.add(in("", "other"))
	for stopped := 0; ; stopped++ {
		ctx, cancel := context.WithCancel(w.ctx)
		_, err := task.RenameSection(ctx, w.st, task.RenameRequest{From: "S", To: "T", By: "A", Progress: func(int, int) { cancel() }})
		cancel()
		if err == nil {
			if stopped != 3 {
				t.Errorf("it was stopped %d times", stopped)
			}
			break
		}
		w.want(err, context.Canceled)
		w.nextIs("B", "other")
		w.must(w.do(task.Unclaim, "B", 0, "other"))
		as[*task.StateError](w, errOf(w.tryClaim("B", "t1")))
		as[*task.StateError](w, errOf(w.tryClaim("B", "t49")))
		as[*task.StateError](w, errOf(task.RenameSection(w.ctx, w.st, task.RenameRequest{From: "S", To: "U", By: "A"})))
	}
	w.claim("B", "t1")
}

// Who takes the old name while the tasks move keeps it: the rename waits for it.
func TestRenameOfAHeldName(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"))
	rename := task.RenameRequest{From: "S", To: "T", By: "A", Progress: func(int, int) { w.acquire("B", "section:S") }}
	as[*task.StateError](w, errOf(task.RenameSection(w.ctx, w.st, rename)))
	w.holds("section:S B")
	w.must(w.release("B", "section:S"))
	w.must(errOf(task.RenameSection(w.ctx, w.st, rename)))
	w.claim("B", "a")
}

func errOf[T any](_ T, err error) error { return err }

// Who has all of a section may release its slots one by one: the rest still keeps
// everybody out, and whoever asks learns who has it.
func TestAllOfASectionWithoutSlots(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.section(task.SectionRequest{Name: "S", New: true, Workers: ptr(2)}))
		w.add(in("S", "a"))
		w.acquire("A", "section:S")
		w.must(w.release("A", "pool:section:S#1", "pool:section:S#2"))
		got, err := task.Sections(w.ctx, w.st, "S")
		w.must(err)
		if by := got.Sections[0].LockedBy; by != "A" {
			t.Errorf("locked by %q", by)
		}
		as[*lease.HeldError](w, errOf(w.tryClaim("B", "a")))
		_, err = w.next("B")
		none := as[*task.NothingReadyError](w, err)
		if len(none.Closed) != 1 || none.Closed[0].Workers != 0 {
			t.Errorf("%+v", none.Closed)
		}
	})
}

// A take-over by force of a task ends its holder, and nobody else in its section.
func TestForceInASectionForSeveral(t *testing.T) {
	for _, victim := range []string{"a", "b"} {
		bubble(t, func(w *world) {
			w.must(w.section(task.SectionRequest{Name: "S", New: true, Workers: ptr(2)}))
			w.add(in("S", "a"), in("S", "b"), in("S", "c"))
			w.acquire("A", "a")
			w.acquire("B", "b")
			g, err := w.tryAcquire(lease.AcquireRequest{Keys: []string{victim}, Owner: "C", Force: true, Reason: "hangs"})
			w.must(err)
			for _, o := range g.TookOver {
				if o.Owner != map[string]string{"a": "A", "b": "B"}[victim] {
					t.Errorf("C wants %s, and ends %+v", victim, o)
				}
			}
			_, err = w.tryAcquire(lease.AcquireRequest{Keys: []string{"c"}, Owner: "D", Force: true, Reason: "hurry"})
			as[*lease.HeldError](w, err) // which of the two would it be?
		})
	}
}

// An owner whose lease on all of a section is over cannot renew it once others may
// work there.
func TestExpiredAllEndsWithThePool(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.section(task.SectionRequest{Name: "S", New: true, Workers: ptr(2)}))
		w.add(in("S", "a"))
		_, err := w.tryAcquire(lease.AcquireRequest{Keys: []string{"section:S"}, Owner: "A", TTL: time.Minute})
		w.must(err)
		time.Sleep(2 * time.Minute)
		w.must(w.section(task.SectionRequest{Name: "S", Workers: ptr(task.AnyWorkers)}))
		w.claim("B", "a")
		w.want(w.renew("A", "pool:section:S#all"), lease.ErrLost)
		w.want(w.renew("A", "section:S"), lease.ErrLost)
	})
}

// A section for several does not get a name that somebody holds as a key.
func TestRenameToAHeldName(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.section(task.SectionRequest{Name: "S", New: true, Workers: ptr(2)}))
		w.add(in("S", "a"))
		w.acquire("A", "section:T")
		w.unchanged("rename", func() {
			_, err := task.RenameSection(w.ctx, w.st, task.RenameRequest{From: "S", To: "T", By: "B"})
			as[*task.StateError](w, err)
		})
	})
}

// A repeated claim gets its grant, whatever its section has become meanwhile.
func TestRepeatedClaimWhenTheSectionOpens(t *testing.T) {
	bubble(t, func(w *world) {
		w.must(w.section(task.SectionRequest{Name: "S", New: true, Workers: ptr(2)}))
		w.add(in("S", "a"))
		r := lease.AcquireRequest{Keys: []string{"a"}, Owner: "A", ID: "r1"}
		first, err := w.tryAcquire(r)
		w.must(err)
		w.must(w.section(task.SectionRequest{Name: "S", Workers: ptr(task.AnyWorkers)}))
		again, err := w.tryAcquire(r)
		w.must(err)
		if again.Token != first.Token {
			t.Errorf("%+v", again)
		}
	})
}
