package task_test

import (
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// Whoever takes a task takes its section; the judge of every world sees that
// the two never have different owners.

func TestSectionComesWithTheTask(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("S", "b"), in("T", "c"), in("", "d"))
	for _, take := range []func(){
		func() { w.claim("A", "a") },
		func() { w.acquire("A", "a") },
		func() { w.claim("A", "d", "a"); w.must(w.do(task.Unclaim, "A", 0, "d")) },
	} {
		take()
		w.holds("a A", "section:S A")
		w.refused("section:S", "B", "b")
		w.refused("section:S", "B", "section:S")
		w.refused("a", "B", "a")
		w.acquire("B", "c")
		w.must(w.release("B", "c"))
		w.must(w.release("A", "a"))
		w.holds()
	}
}

func TestSectionStaysUntilItsLastTask(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("S", "b"), in("S", "c"))
	w.claim("A", "a")
	w.claim("A", "b")
	w.claim("A/x", "c") // a child uses what its parent has
	w.must(w.do(task.Complete, "A", 0, "a"))
	w.must(w.do(task.Unclaim, "A", 0, "b"))
	w.holds("c A/x", "section:S A")
	w.refused("section:S", "B", "a")
	w.must(w.do(task.Fail, "A/x", 0, "c"))
	w.holds()
}

// A task is taken back from the middle of a batch over two sections.
func TestBatchOverTwoSections(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("S", "b"), in("T", "c"), in("T", "d"))
	w.claim("A", "a", "b", "c")
	w.holds("a A", "b A", "c A", "section:S A", "section:T A")
	w.must(w.do(task.Complete, "A", 0, "c"))
	w.holds("a A", "b A", "section:S A")
	w.claim("B", "d")
	_, err := w.tryClaim("A", "b", "d")
	as[*lease.HeldError](w, err)
	w.must(w.do(task.Complete, "A", 0, "a", "b"))
	w.holds("d B", "section:T B")
}

// What a lease uses, and what it does not use any more.
func TestUsedSectionEndsWithItsLastTask(t *testing.T) {
	w := newWorld(t)
	w.add(in("T", "z"), in("S", "a"), in("T", "b"))
	w.claim("A", "z")
	w.claim("A", "a", "b") // takes S, uses T
	w.must(w.do(task.Complete, "A", 0, "z"))
	w.must(w.do(task.Complete, "A", 0, "b"))
	w.holds("a A", "section:S A")

	w.add(in("T", "c"), in("S", "d"))
	w.acquire("A", "section:T")
	w.claim("A", "d", "c")
	w.must(w.do(task.Complete, "A", 0, "a"))
	w.must(w.do(task.Complete, "A", 0, "d")) // S goes, what it uses in T stays
	w.must(w.renew("A", "c"))
	w.must(w.do(task.Complete, "A", 0, "c"))
	w.holds("section:T A")
}

func TestSectionInUseCannotBeReleased(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("T", "b"))
	held := w.acquire("A", "section:S", "section:T")
	w.claim("A/x", "a")
	w.unchanged("a refused release", func() {
		used := as[*lease.InUseError](w, w.release("A", "section:S"))
		equal(w, "in use", used.Inside, []string{"a"})
		as[*lease.InUseError](w, w.release("A", "section:S", "section:T"))
		_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "A", Lease: held.LeaseID})
		as[*lease.InUseError](w, err)
		as[*lease.OwnerError](w, w.release("B", "section:S"))
		as[*lease.OwnerError](w, w.release("A/x", "section:S"))
	})
	w.must(w.release("A", "section:T")) // nobody is in there
	w.must(w.release("A", "section:S", "a"))
	w.holds()
}

func TestReleaseInAnyOrder(t *testing.T) {
	w := newWorld(t)
	w.add(in("X", "x9"), in("Y", "y8"))
	w.acquire("A", "section:X")
	w.acquire("A", "section:Y", "x9")
	w.acquire("A", "y8")
	w.must(w.release("A", "section:X", "section:Y", "x9", "y8"))
	w.holds()
}

// A section that was asked for stays when the task is done.
func TestSectionAskedForStays(t *testing.T) {
	for name, take := range map[string]func(w *world){
		"before": func(w *world) { w.acquire("A", "section:S"); w.claim("A", "a") },
		"with":   func(w *world) { w.acquire("A", "section:S", "a"); w.claim("A", "a") },
		"after":  func(w *world) { w.claim("A", "a"); w.acquire("A", "section:S") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.add(in("S", "a"))
			take(w)
			w.must(w.do(task.Complete, "A", 0, "a"))
			w.holds("section:S A")
		})
	}
}

// Whoever loses the section loses the tasks in it, in the same commit.
func TestLossOfTheSection(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"broken":     func(w *world) { w.breakKey("section:S") },
		"taken over": func(w *world) { time.Sleep(3 * time.Hour); w.acquire("B", "section:S") },
		"by a task":  func(w *world) { time.Sleep(3 * time.Hour); w.acquire("B", "b") },
		"cleaned up": func(w *world) {
			time.Sleep(3 * time.Hour)
			out, err := lease.Cleanup(w.ctx, w.st, lease.CleanupRequest{By: "admin"})
			w.must(err)
			equal(w, "freed", len(out.Freed), 2)
			w.holds()
		},
		"session end": func(w *world) {
			out, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "A", All: true})
			w.must(err)
			equal(w, "released", len(out.Released), 2)
			w.holds()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.add(in("S", "a"), in("S", "b"))
				w.acquire("A", "section:S")
				token := w.claim("A/x", "a")
				lose(w)
				w.want(w.do(task.Complete, "A/x", token, "a"), lease.ErrLost)
				w.want(w.renew("A/x", "a"), lease.ErrLost)
				w.status("a", task.Pending)
			})
		})
	}
}

// The store may drop the record of a lease when its time is over: who relied
// on it is found all the same.
func TestLeaseOfTheSectionDropped(t *testing.T) {
	bubble(t, func(w *world) {
		w.add(in("S", "a"))
		section := w.acquire("A", "section:S")
		token := w.claim("A/x", "a")
		w.drop("lease/" + section.LeaseID)
		w.want(w.renew("A/x", "a"), lease.ErrLost)
		w.acquire("B", "section:S")
		w.holds("section:S B")
		w.want(w.do(task.Complete, "A/x", token, "a"), lease.ErrLost)
	})
	bubble(t, func(w *world) { // its owner comes back to the task
		w.add(in("S", "a"))
		section := w.acquire("A", "section:S")
		w.claim("A", "a")
		w.drop("lease/" + section.LeaseID)
		w.claim("A", "a")
		w.holds("a A", "section:S A")
	})
}

func TestHeartbeatOfATaskKeepsItsSection(t *testing.T) {
	bubble(t, func(w *world) {
		w.add(in("S", "a"), in("S", "b"))
		section, err := w.tryAcquire(lease.AcquireRequest{Owner: "A", Keys: []string{"section:S"}, TTL: 30 * time.Minute})
		w.must(err)
		w.claim("A/x", "a")
		for range 20 {
			time.Sleep(20 * time.Minute)
			out, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "A/x", Keys: []string{"a"}})
			w.must(err)
			// The task ends with its section, which has the shorter ttl.
			equal(w, "window", out.Leases[0].ExpiresAt.Time, time.Now().UTC().Add(30*time.Minute))
		}
		w.refused("section:S", "B", "b")
		w.must(w.renew("A", "section:S"))
		if c, _ := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "section:S"}); c.Lock.LeaseID != section.LeaseID {
			t.Error("another lease has the section")
		}
	})
}

// What was taken for hours is not cut short by a claim within it, nor tied to
// the claim's process; but it lasts as long as what relies on it.
func TestAClaimLeavesItsSectionAsItIs(t *testing.T) {
	near(t, func(w *world) {
		w.add(in("S", "a"), in("S", "b"))
		_, err := w.tryAcquire(lease.AcquireRequest{Owner: "A", Keys: []string{"section:S"}, TTL: 3 * time.Hour})
		w.must(err)
		for _, c := range []struct {
			id  string
			ttl time.Duration
		}{{"a", time.Minute}, {"b", 5 * time.Hour}} {
			_, err := task.ClaimTasks(w.ctx, w.st, task.ClaimRequest{
				Tasks: []string{c.id}, Acquire: lease.AcquireRequest{Owner: "A", TTL: c.ttl, Process: host.Self()},
			})
			w.must(err)
			out, err := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "section:S"})
			w.must(err)
			equal(w, "section around "+c.id, out.Lock.ExpiresAt.Time, time.Now().UTC().Add(max(c.ttl, 3*time.Hour)))
			equal(w, "its process", out.Lock.PID, 0)
		}
	})
}

// Nobody but the owner prolongs a lease: not a break, an expiry, an archive of
// what lies within.
func TestOthersGiveNoLife(t *testing.T) {
	for name, meddle := range map[string]func(w *world){
		"break":   func(w *world) { w.breakKey("a") },
		"cleanup": func(w *world) { _, _ = lease.Cleanup(w.ctx, w.st, lease.CleanupRequest{By: "admin"}) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.add(in("S", "a"), in("S", "b"))
				w.acquire("A", "section:S") // for two hours
				w.claim("A", "a")           // for one
				time.Sleep(90 * time.Minute)
				meddle(w)
				time.Sleep(31 * time.Minute)
				w.claim("B", "b")
			})
		})
	}
	bubble(t, func(w *world) {
		w.add(in("", "a"), in("", "b"))
		w.claim("A", "a", "b")
		time.Sleep(2 * time.Hour)
		w.must(w.do(task.Complete, "B", 0, "a")) // A is gone
		w.holds()
		w.claim("B", "b")
	})
}

func TestHoldWithin(t *testing.T) {
	bubble(t, func(w *world) {
		w.add(in("S", "a"), in("S", "b"))
		hold := func(owner, id string) (*lease.Lease, error) {
			_, l, err := task.HoldTasks(w.ctx, w.st, task.ClaimRequest{Tasks: []string{id}, Acquire: lease.AcquireRequest{Owner: owner}})
			return l, err
		}
		l, err := hold("A", "a")
		w.must(err)
		_, err = hold("A", "b") // another holder of the same parent
		as[*lease.HeldError](w, err)
		inner, err := hold(l.Owner(), "b")
		w.must(err)
		time.Sleep(24 * time.Hour)
		w.must(l.Err())
		w.must(inner.Err())
		w.must(l.Release(w.ctx)) // the section stays for the inner one
		w.holds("b "+inner.Owner(), "section:S "+l.Owner())
		time.Sleep(24 * time.Hour)
		w.must(inner.Err())
		w.breakKey("section:S")
		time.Sleep(10 * time.Minute)
		w.want(inner.Err(), lease.ErrLost)
		w.want(inner.Release(w.ctx), lease.ErrLost)
		w.holds()
	})
}

// A waiter for a task waits for its section too, and leaves both queues.
func TestWaitWithin(t *testing.T) {
	bubble(t, func(w *world) {
		w.add(in("S", "a"), in("S", "b"))
		w.claim("A", "a")
		got := make(chan error, 2)
		for _, owner := range []string{"B", "C"} {
			go func() {
				_, err := task.ClaimTasks(w.ctx, w.st, task.ClaimRequest{
					Tasks:   []string{"b"},
					Acquire: lease.AcquireRequest{Owner: owner, Wait: time.Hour},
				})
				got <- err
			}()
			w.settle()
		}
		w.must(w.do(task.Complete, "A", 0, "a"))
		w.must(<-got)
		w.settle()
		w.holds("b B", "section:S B")
		w.must(w.do(task.Complete, "B", 0, "b")) // nothing is left for C
		as[*task.StateError](w, <-got)
		for key := range w.mem.dump() {
			if key == "queue/section:S" || key == "queue/b" {
				t.Errorf("%s is left", key)
			}
		}
	})
}

// A task that someone waits for moves to another section: the waiter goes with
// it, and is in nobody's way where it was.
func TestWaitForATaskThatMoves(t *testing.T) {
	for _, id := range []string{"", "r1"} {
		bubble(t, func(w *world) {
			w.add(in("S", "a"), in("S", "b"), in("T", "c"))
			w.acquire("A", "section:S")
			w.acquire("B", "section:T")
			got := make(chan error, 1)
			go func() {
				_, err := w.tryAcquire(lease.AcquireRequest{Owner: "C", Keys: []string{"a"}, ID: id, Wait: time.Hour})
				got <- err
			}()
			w.settle()
			w.must(w.move("a", "T"))
			time.Sleep(time.Minute)
			w.must(w.release("A", "section:S"))
			w.acquire("D", "b")
			w.must(w.release("B", "section:T"))
			w.must(<-got)
			w.holds("a C", "section:T C", "b D", "section:S D")
		})
	}
}

// Two children may use what their parent holds; a task is still worked on by
// one of them.
func TestSiblingsUnderTheirParentsLock(t *testing.T) {
	w := newWorld(t)
	w.add(in("", "a"), in("", "b"))
	w.acquire("P", "a")
	w.claim("P/x", "a")
	_, err := w.tryClaim("P/y", "a")
	if held := as[*lease.HeldError](w, err); held.Owner != "P/x" {
		t.Errorf("held by %s", held.Owner)
	}
	w.claim("P", "a")   // the parent
	w.claim("P/x", "a") // and whoever claimed it, again
	w.nextIs("P/y", "b")
	w.must(w.do(task.Complete, "P/x", 0, "a"))
}
