package lease_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
)

// tryHold is an attached holder that does not wait.
func (w *world) tryHold(owner string, keys ...string) error {
	l, err := lease.Hold(w.ctx, w.st, minute(owner, keys...))
	if err == nil {
		w.must(l.Release(w.ctx))
	}
	return err
}

// waitHold is an attached holder that waits.
func (w *world) waitHold(owner string, keys ...string) chan *lease.Lease {
	got := make(chan *lease.Lease, 1)
	go func() {
		r := minute(owner, keys...)
		r.Wait = 24 * time.Hour
		l, err := lease.Hold(w.ctx, w.st, r)
		if err != nil {
			w.Error(err)
		}
		got <- l
	}()
	w.settle()
	return got
}

func (w *world) releaseErr(owner string, keys ...string) error {
	_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: owner, Keys: keys})
	return err
}

// A user of its parent's lock learns when its own part ends: the
// lock stays, and the next one may work under it at once.
func TestToldOfTheEndOfAUse(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a")
		r := minute("alice", "a")
		r.TTL = time.Hour
		l := w.hold(r)
		time.Sleep(5 * time.Second)
		w.must(l.Err())
		w.endSession(l.Owner(), "")
		if after := w.lostAfter(l); after > 2*time.Second {
			t.Errorf("noticed after %s", after)
		}
		if lost := as[*lease.LostError](w, l.Err()); !strings.Contains(lost.Why, l.Owner()) {
			t.Errorf("the reason is %q", lost.Why)
		}
		w.want(l.Release(w.ctx), lease.ErrLost)
		w.must(w.tryHold("alice", "a"))
	})
}

// Two who work under locks of one owner, and each waits for the other: the
// younger gets the error at once.
func TestCircleOfUsers(t *testing.T) {
	for name, keys := range map[string][3]string{ // what the parent holds, the one uses, and the other's child asks for
		"one key":            {"a", "a", "a"},
		"paths that overlap": {"path:src/**", "path:src/**", "path:src/x"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, usedFirst := range []bool{true, false} {
				bubble(t, func(w *world) {
					w.acquire("alice", keys[0])
					user, holder := w.hold(minute("alice", keys[1])), w.hold(minute("alice", "b"))
					owners, asks := []string{user.Owner(), holder.Owner()}, []string{"b", keys[2]}
					if !usedFirst {
						slices.Reverse(owners)
						slices.Reverse(asks)
					}
					ctx, stop := context.WithCancel(w.ctx)
					older := make(chan error, 1)
					wait := func(i int) error {
						r := minute(owners[i], asks[i])
						r.Wait = 24 * time.Hour
						_, err := lease.Hold(ctx, w.st, r)
						return err
					}
					go func() { older <- wait(0) }()
					w.settle()
					time.Sleep(time.Second)
					e := as[*lease.DeadlockError](w, wait(1))
					if len(e.Chain) != 2 || e.Chain[0].Key != asks[1] || e.Chain[1].Key != asks[0] {
						t.Error(e)
					}
					stop()
					w.want(<-older, context.Canceled)
					w.must(user.Release(w.ctx))
					w.must(holder.Release(w.ctx))
				})
			}
		})
	}
}

// While somebody works under a lock, its owner can neither release it nor
// have it for a shorter time; when that ends all is as before.
func TestLockInUse(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, TTL: time.Hour})
		l := w.hold(minute("alice", "a"))
		if k := l.Grant().Keys[0]; !k.Reentrant || k.Token != g.Token || k.Lease != g.LeaseID {
			t.Errorf("granted %+v", k)
		}
		w.unchanged("what is refused", func() {
			used := as[*lease.InUseError](w, w.releaseErr("alice", "a"))
			equal(w, "error", used, &lease.InUseError{Key: "a", Inside: []string{"a"}, By: []string{l.Owner()}})
			_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", Lease: g.LeaseID})
			as[*lease.InUseError](w, err)
			_, err = lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Second})
			as[*lease.InUseError](w, err)
			w.refused("bob", "a")
			as[*lease.HeldError](w, w.tryHold("bob", "a"))
		})
		shown, err := lease.Show(w.ctx, w.st, "a")
		w.must(err)
		if len(shown.Users) != 1 || shown.Users[0].Owner != l.Owner() || shown.Users[0].State != lease.Held {
			t.Errorf("shown with users %+v", shown.Users)
		}
		w.release("alice", "b") // nobody is using it
		w.acquire("alice", "a") // again
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: 2 * time.Hour})
		w.must(l.Release(w.ctx))
		if !w.locked("a") || len(w.kinds("lease/")) != 1 {
			t.Errorf("not as before: %v", w.kinds("lease/"))
		}
		w.release("alice", "a")
	})
}

// A user keeps what it uses, whatever its owner asked for.
func TestUserKeepsWhatItUses(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: 5 * time.Second})
		r := minute("alice", "a")
		r.TTL = time.Hour
		l := w.hold(r)
		inner := w.hold(minute(l.Owner(), "a"))
		for range 200 {
			time.Sleep(time.Second)
			if l.Err() != nil || inner.Err() != nil || !w.locked("a") {
				t.Fatalf("%v, %v", l.Err(), inner.Err())
			}
		}
		w.must(inner.Release(w.ctx))
		w.must(l.Release(w.ctx))
		time.Sleep(6 * time.Second)
		if w.locked("a") {
			t.Error("nobody gives it life any more")
		}
	})
}

// Who works under one lock excludes each other, and never waits for a parent
// or behind those who have nothing.
func TestUsersExcludeEachOther(t *testing.T) {
	for name, outer := range map[string]func(w *world) (owner string, end func()){
		"under a plain lock": func(w *world) (string, func()) {
			w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour})
			return "alice", func() { w.release("alice", "a") }
		},
		"under an attached holder": func(w *world) (string, func()) {
			l := w.hold(minute("alice", "a"))
			return l.Owner(), func() { w.must(l.Release(w.ctx)) }
		},
		"under a user": func(w *world) (string, func()) {
			w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour})
			l := w.hold(minute("alice", "a"))
			return l.Owner(), func() { w.must(l.Release(w.ctx)); w.release("alice", "a") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			near(t, func(w *world) {
				owner, end := outer(w)
				bob := w.wait("bob", "a")
				one := w.hold(minute(owner, "a")) // does not stand behind bob
				if held := as[*lease.HeldError](w, w.tryHold(owner, "a")); held.Owner != one.Owner() || held.Key != "a" {
					t.Errorf("in the way is %+v", held)
				}
				inner := w.hold(minute(one.Owner(), "a")) // a parent is not in the way
				two, three := w.waitHold(owner, "a"), w.waitHold(owner, "a")
				equal(w, "queue", w.waiters("a"), []string{"bob"})
				time.Sleep(5 * time.Minute)
				w.must(inner.Release(w.ctx))
				w.settle()
				if len(two)+len(three) > 0 {
					t.Fatal("two at once")
				}
				w.must(one.Release(w.ctx))
				w.settle()
				if len(two)+len(three) != 1 {
					t.Fatalf("%d were served", len(two)+len(three))
				}
				if len(two) == 0 {
					two, three = three, two
				}
				w.must((<-two).Release(w.ctx))
				w.must((<-three).Release(w.ctx))
				w.waiting(bob)
				end()
				w.served(bob)
			})
		})
	}
}

// Overlapping paths of one owner are one place to work in.
func TestUsersOfOverlappingPaths(t *testing.T) {
	for _, c := range []struct {
		held         []string
		first, other string
		both         bool
	}{
		{[]string{"path:src"}, "path:src", "path:src/a", false},
		{[]string{"path:src"}, "path:src/a", "path:src", false},
		{[]string{"path:src"}, "path:src/a", "path:src/b", true},
		{[]string{"path:src"}, "path:src/a", "path:src/a/b", false},
		{[]string{"path:src", "path:src/a"}, "path:src", "path:src/a", false},
		{[]string{"path:src", "path:src/a"}, "path:src/a", "path:src", false},
		{[]string{"path:src/a", "path:src/b"}, "path:src/a", "path:src/b", true},
		{[]string{"path:src/a"}, "path:src/a", "path:src", false},
	} {
		bubble(t, func(w *world) {
			for _, key := range c.held {
				w.acquire("alice", key)
			}
			l := w.hold(minute("alice", c.first))
			if err := w.tryHold("alice", c.other); (err == nil) != c.both {
				t.Errorf("%v held, %s and %s: %v", c.held, c.first, c.other, err)
			}
			w.must(w.tryHold(l.Owner(), c.other))
			w.must(l.Release(w.ctx))
			w.must(w.tryHold("alice", c.other))
		})
	}
}

// The lock is taken away: who works under it ends with it.
func TestLossOfWhatIsUsed(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, TTL: time.Hour})
		l := w.hold(minute("alice", "a", "c"))
		w.breakKeys(lease.BreakRequest{By: "root", Keys: []string{"b"}})
		equal(w, "left", append(w.kinds("lock/"), w.kinds("lease/")...), nil)
		w.acquire("bob", "a", "c")
		w.lostAfter(l)
		w.want(l.Release(w.ctx), lease.ErrLost)
		if w.holder("a") != "bob" || w.holder("c") != "bob" {
			t.Error("a lost user released what is bob's")
		}
	})
}

func (w *world) endSession(owner, session string) lease.ReleaseResult {
	w.Helper()
	out, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: owner, All: true, Session: session})
	w.must(err)
	return out
}

// The end of a session leaves a lock to those who work under it, whether they
// belong to it or not. So does the end of an attached holder.
func TestLeftToItsUsers(t *testing.T) {
	for name, leave := range map[string]func(w *world) (child string, leave func()){
		"session end": func(w *world) (string, func()) {
			w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, TTL: time.Hour, Session: "one"})
			return "alice", func() {
				out := w.endSession("alice", "one")
				equal(w, "left", out.Left, []string{"a"})
				equal(w, "again", w.endSession("alice", "one").Left, []string{"a"})
			}
		},
		"end of all": func(w *world) (string, func()) {
			w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, TTL: time.Hour})
			return "alice", func() {
				out := w.endSession("alice", "")
				equal(w, "left", out.Left, []string{"a"})
				equal(w, "again", w.endSession("alice", "").Left, []string{"a"})
			}
		},
		"attached": func(w *world) (string, func()) {
			l := w.hold(minute("alice", "a", "b"))
			return l.Owner(), func() { w.must(l.Release(w.ctx)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				owner, leave := leave(w)
				l := w.hold(minute(owner, "a"))
				leave()
				w.acquire("bob", "b")
				for range 200 {
					time.Sleep(time.Minute)
					w.refused("bob", "a")
				}
				w.must(l.Err())
				w.must(l.Release(w.ctx))
				w.acquire("bob", "a")
			})
		})
	}
	bubble(t, func(w *world) { // its owner wants it after all
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour, Session: "one"})
		l := w.hold(minute("alice", "a"))
		w.endSession("alice", "one")
		w.acquire("alice", "a")
		w.must(l.Release(w.ctx))
		w.refused("bob", "a")
	})
}

// A user that is over is in nobody's way, and does not come back.
func TestUserThatIsOver(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: 24 * time.Hour})
		o := &outage{Store: w.mem}
		l := w.through(o).hold(minute("alice", "a"))
		o.state.Store("fails")
		time.Sleep(50 * time.Second)
		as[*lease.HeldError](w, w.tryHold("alice", "a"))
		time.Sleep(15 * time.Second)
		two := w.hold(minute("alice", "a"))
		equal(w, "took over", two.Grant().TookOver, []lease.TakenOver{{Key: "a", Owner: l.Owner(), Why: lease.Expired}})
		o.state.Store("")
		w.want(l.Release(w.ctx), lease.ErrLost)
		time.Sleep(10 * time.Minute)
		w.must(two.Release(w.ctx))
		w.release("alice", "a")
	})
	bubble(t, func(w *world) { // it does not keep its owner from giving the lock back
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: 24 * time.Hour})
		o := &outage{Store: w.mem}
		l := w.through(o).hold(minute("alice", "a"))
		o.state.Store("fails")
		time.Sleep(65 * time.Second)
		w.release("alice", "a")
		o.state.Store("")
		w.want(l.Release(w.ctx), lease.ErrLost)
		equal(w, "left", w.kinds("lease/"), nil)
	})
}

// The death of a user is proved as that of a holder, and while it lives that of
// the process under whose lock it works does not count.
func TestDeathOfAUser(t *testing.T) {
	w := newWorld(t)
	process := func() (*exec.Cmd, host.Process) {
		cmd := sleeper(t)
		p, err := host.Find(cmd.Process.Pid)
		w.must(err)
		return cmd, p
	}
	kill := func(cmd *exec.Cmd) {
		w.must(cmd.Process.Kill())
		_ = cmd.Wait()
	}
	outer, p1 := process()
	w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour, Process: p1})
	user, p2 := process()
	r := minute("alice", "a")
	r.Process = p2
	l := w.hold(r)
	kill(outer)
	w.refused("bob", "a")
	kill(user)
	w.acquire("bob", "a")
	w.want(l.Release(w.ctx), lease.ErrLost)

	outer, p1 = process()
	w.grant(lease.AcquireRequest{Owner: "carol", Keys: []string{"b"}, TTL: time.Hour, Process: p1})
	user, p2 = process()
	r = minute("carol", "b")
	r.Process = p2
	l = w.hold(r)
	as[*lease.InUseError](w, w.releaseErr("carol", "b"))
	kill(user)
	w.must(w.tryHold("carol", "b"))
	_ = l.Release(w.ctx)
	w.release("carol", "b")
	kill(outer)

	// What a session left to its users is free when the last of them is dead, and
	// not before; who takes it again has it beyond that.
	for _, again := range []bool{false, true} {
		w.grant(lease.AcquireRequest{Owner: "erin", Keys: []string{"d", "e"}, TTL: time.Hour})
		one, p1 := process()
		two, p2 := process()
		var users []*lease.Lease
		for key, p := range map[string]host.Process{"d": p1, "e": p2} {
			r := minute("erin", key)
			r.Process = p
			users = append(users, w.hold(r))
		}
		equal(w, "left", w.endSession("erin", "").Left, []string{"d", "e"})
		if again {
			w.acquire("erin", "d", "e")
		}
		kill(one)
		w.refused("bob", "e")
		kill(two)
		if again {
			w.refused("bob", "d")
			w.refused("bob", "e")
		} else {
			w.acquire("bob", "d", "e")
			w.release("bob", "d", "e")
		}
		for _, l := range users {
			_ = l.Release(w.ctx)
		}
	}
	w.release("erin", "d", "e")

	outer, p1 = process() // who takes it again while only its user lives has it beyond that
	w.grant(lease.AcquireRequest{Owner: "dave", Keys: []string{"c"}, TTL: time.Hour, Process: p1})
	l = w.hold(minute("dave", "c"))
	kill(outer)
	w.acquire("dave", "c")
	w.must(l.Release(w.ctx))
	w.refused("bob", "c")
	w.release("dave", "c")
}

// Cleanup finds users that are over, too.
func TestCleanupOfUsers(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: 24 * time.Hour})
		o := &outage{Store: w.mem}
		l := w.through(o).hold(minute("alice", "a"))
		o.state.Store("fails")
		time.Sleep(2 * time.Minute)
		_, err := lease.Cleanup(w.ctx, w.st, lease.CleanupRequest{By: "root"})
		w.must(err)
		if n := w.kinds("lease/"); len(n) != 1 || slices.Contains(n, "lease/"+l.Owner()) {
			t.Errorf("left: %v", n)
		}
		_ = l.Release(w.ctx)
	})
}
