package lease_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
)

func TestDefaultTTL(t *testing.T) {
	for key, ttl := range map[string]time.Duration{
		"1.0-parse": time.Hour, "section:Backend": 2 * time.Hour, "job:digest": 5 * time.Minute, "sections:x": time.Hour,
	} {
		t.Run(key, func(t *testing.T) {
			near(t, func(w *world) {
				g := w.acquire("alice", key)
				if d := g.ExpiresAt.Sub(g.AcquiredAt); d != ttl {
					t.Errorf("expires after %s, want %s", d, ttl)
				}
				time.Sleep(ttl - time.Nanosecond)
				w.refused("bob", key)
				time.Sleep(time.Nanosecond) // it is over when it says that it expires
				w.acquire("bob", key)
			})
		})
	}
}

func TestTakeOver(t *testing.T) {
	bubble(t, func(w *world) {
		old := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b", "c"}, TTL: time.Minute})
		other := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"d"}, TTL: time.Hour})
		time.Sleep(time.Minute + 1)

		g := w.acquire("bob", "b")
		equal(w, "taken over", g.TookOver, []lease.TakenOver{{Key: "b", Owner: "alice", Why: lease.Expired}})
		if g.Token <= other.Token {
			t.Errorf("token %d after %d", g.Token, other.Token)
		}
		// One key taken over ends the whole lease, and only that.
		if w.holder("a") != "" || w.holder("b") != "bob" || w.holder("c") != "" || w.holder("d") != "alice" {
			t.Error("holders:", w.holder("a"), w.holder("b"), w.holder("c"), w.holder("d"))
		}
		equal(w, "history", w.history(), []string{
			"acquired a+b+c alice", "acquired d alice", "taken over a+b+c alice", "acquired b bob",
		})
		w.unchanged("the old holder", func() {
			w.want(w.renew("alice", "b"), lease.ErrLost)
			w.want(w.renew("alice", "a"), lease.ErrLost)
			_, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "alice", Lease: old.LeaseID})
			w.want(err, lease.ErrLost)
			_, err = lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", Keys: []string{"b"}, Token: old.Token})
			w.want(err, lease.ErrLost)
			_, err = lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", Lease: old.LeaseID})
			w.must(err)
		})
	})
}

func TestTakeOverOfSeveralLeases(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, TTL: time.Minute})
		w.grant(lease.AcquireRequest{Owner: "bob", Keys: []string{"c", "d"}, TTL: time.Minute})
		time.Sleep(2 * time.Minute)
		g := w.acquire("carol", "a", "b", "c")
		if len(g.TookOver) != 3 || w.holder("d") != "" {
			t.Errorf("%+v, d held by %q", g.TookOver, w.holder("d"))
		}
		equal(w, "history", w.history(), []string{
			"acquired a+b alice", "acquired c+d bob", "taken over a+b alice", "taken over c+d bob", "acquired a+b+c carol",
		})
	})
}

func TestTokensOnlyGrow(t *testing.T) {
	bubble(t, func(w *world) {
		last := int64(0)
		for i := range 20 {
			g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Second})
			if g.Token <= last {
				t.Fatalf("token %d after %d", g.Token, last)
			}
			last = g.Token
			switch i % 4 {
			case 0:
				w.release("alice", "a")
			case 1:
				_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"a"}})
				w.must(err)
			case 2:
				time.Sleep(2 * time.Second)
				_, err := lease.Cleanup(w.ctx, w.st, lease.CleanupRequest{By: "root"})
				w.must(err)
			case 3:
				time.Sleep(2 * time.Second)
				last = w.acquire("bob", "a").Token
				w.release("bob", "a")
			}
		}
	})
}

func TestLateRenewal(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute})
		time.Sleep(time.Hour)
		if w.locked("a") {
			t.Error("expired, and yet locked")
		}
		// Nobody came: it may go on, with its token.
		w.must(w.renew("alice", "a"))
		again := w.acquire("alice", "a")
		if !w.locked("a") || again.Token != g.Token {
			t.Errorf("%+v", again)
		}
		time.Sleep(time.Hour)
		w.acquire("bob", "a")
		w.want(w.renew("alice", "a"), lease.ErrLost)
		time.Sleep(2 * time.Hour)
		w.want(w.renew("alice", "a"), lease.ErrLost)
	})
}

func TestTheTTLIsReadFromTheRecord(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: 3 * time.Hour})
		time.Sleep(2 * time.Hour)
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, TTL: time.Second})
		as[*lease.HeldError](w, err)
	})
}

func TestMaxHold(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute, MaxHold: 150 * time.Second})
		for range 2 {
			time.Sleep(50 * time.Second)
			w.must(w.renew("alice", "a"))
		}
		// Held for 100 s: the last renewal gives 50 s, not a minute.
		if until := w.check("a").Lock.ExpiresAt; until.Sub(g.AcquiredAt) != 150*time.Second {
			t.Errorf("expires %s after it was taken", until.Sub(g.AcquiredAt))
		}
		time.Sleep(40 * time.Second)
		w.must(w.renew("alice", "a"))
		w.acquire("alice/sub", "a")
		time.Sleep(10*time.Second + 1)
		if w.locked("a") {
			t.Error("held beyond its max hold")
		}
		w.want(w.renew("alice", "a"), lease.ErrLost)
		// It is free for everyone, its last owner too: as a new grant.
		again := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, MaxHold: time.Hour})
		if again.Token <= g.Token || again.Keys[0].Reentrant {
			t.Errorf("%+v after %+v", again, g)
		}
	})
}

func TestMaxHoldDoesNotOvertakeWaiters(t *testing.T) {
	near(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute, MaxHold: time.Minute})
		bob := w.wait("bob", "a")
		time.Sleep(time.Minute)
		w.served(bob)
		w.refused("alice", "a")
	})
}

// A process that we start and end: proof of death needs a real one.
func TestProofOfDeath(t *testing.T) {
	w := newWorld(t)
	child := exec.Command("sleep", "60")
	w.must(child.Start())
	p, err := host.Find(child.Process.Pid)
	w.must(err)
	for _, r := range []lease.AcquireRequest{
		{Owner: "alice", Keys: []string{"dies", "dies-too"}, Process: p},
		{Owner: "alice", Keys: []string{"other-boot"}, Process: host.Process{PID: p.PID, Start: p.Start, Boot: "other", NS: p.NS}},
		{Owner: "alice", Keys: []string{"other-namespace"}, Process: host.Process{PID: p.PID, Start: p.Start, Boot: p.Boot, NS: "other"}},
		{Owner: "alice", Keys: []string{"nothing-recorded"}},
		{Owner: "alice", Keys: []string{"group-lives"}, Process: p, Group: groupOfTest()},
	} {
		w.grant(r)
	}
	w.refused("bob", "dies")
	waiter := make(chan error, 1)
	go func() {
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "carol", Keys: []string{"dies-too"}, Wait: time.Minute})
		waiter <- err
	}()

	w.must(child.Process.Kill())
	_ = child.Wait()
	w.must(<-waiter) // it looked, nobody told it
	for _, key := range []string{"other-boot", "other-namespace", "nothing-recorded", "group-lives"} {
		w.refused("bob", key)
	}
	if w.holder("dies") != "" {
		t.Error("a dead lease ends as a whole; dies is held by", w.holder("dies"))
	}
}

// The owner of a dead process does not go on with its lease: the work of that
// process is gone, a new grant begins.
func TestDeathEndsReentrance(t *testing.T) {
	w := newWorld(t)
	child := exec.Command("true")
	w.must(child.Start())
	p, err := host.Find(child.Process.Pid)
	if err != nil {
		t.Skip("ended before it could be looked at")
	}
	_ = child.Wait()
	g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, Process: p})
	again := w.acquire("alice", "a")
	equal(w, "taken over", again.TookOver, []lease.TakenOver{{Key: "a", Owner: "alice", Why: lease.Dead}})
	if again.Token <= g.Token {
		t.Error(again.Token, g.Token)
	}
}
