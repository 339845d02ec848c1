package lease_test

import (
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

func TestWhoMayUseWhatIsHeld(t *testing.T) {
	for _, c := range []struct {
		holder, caller string
		uses           bool // may acquire it again
		releases       bool // a parent answers for its children
	}{
		{"alice", "alice", true, true},
		{"alice", "alice/job", true, false},
		{"alice", "alice/job/step", true, false},
		{"alice/job", "alice", false, true},
		{"alice/job", "alice/job/step", true, false},
		{"alice/job", "alice/other", false, false},
		{"alice/job/step", "alice", false, true},
		{"alice", "bob", false, false},
		{"alice", "alice2", false, false},
		{"alice2", "alice", false, false},
		{"claude:ab", "claude:abc", false, false},
		{"claude:abc", "claude:ab", false, false},
		{"claude:ab", "claude:ab/sub", true, false},
		{"alice", "Alice", false, false},
		{"alice", "alice/", false, false},
		{"user@host:tty1", "user@host:tty1/x", true, false},
		{"user@host:tty1", "user@host:tty2", false, false},
		{"claude:s/mcp-x", "claude:s2", false, false},
	} {
		t.Run(c.caller+" uses what "+c.holder+" holds", func(t *testing.T) {
			bubble(t, func(w *world) {
				g := w.acquire(c.holder, "deploy")
				time.Sleep(time.Minute)
				got, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: c.caller, Keys: []string{"deploy"}})
				if (err == nil) != c.uses {
					t.Errorf("acquire: %v", err)
				}
				if c.uses {
					k := got.Keys[0]
					if k.Token != g.Token || !k.Reentrant || got.LeaseID != g.LeaseID || !got.ExpiresAt.After(g.ExpiresAt.Time) {
						t.Errorf("got %+v again after %+v", got, g)
					}
				}
				if err := w.renew(c.caller, "deploy"); (err == nil) != (c.uses || c.releases) {
					t.Errorf("renew: %v", err)
				}
				if _, err := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "deploy", HeldBy: c.caller}); (err == nil) != c.uses {
					t.Errorf("check mine: %v", err)
				}
				_, err = lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: c.caller, Keys: []string{"deploy"}})
				if (err == nil) != c.releases {
					t.Errorf("release: %v", err)
				}
				if w.locked("deploy") == c.releases {
					t.Errorf("locked: %v", w.locked("deploy"))
				}
			})
		})
	}
}

func TestAgainMovesTheEnd(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute})
		time.Sleep(50 * time.Second)
		w.acquire("alice", "a")
		time.Sleep(50 * time.Second)
		if !w.locked("a") {
			t.Error("acquiring again was not a heartbeat")
		}
		// The owner may ask for another ttl, a child only renews.
		w.grant(lease.AcquireRequest{Owner: "alice/sub", Keys: []string{"a"}, TTL: time.Hour})
		time.Sleep(61 * time.Second)
		if w.locked("a") {
			t.Error("a child changed the ttl of its parent")
		}
		again := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour})
		time.Sleep(59 * time.Minute)
		if !w.locked("a") || again.Token != g.Token {
			t.Errorf("not held for the new ttl with token %d, but %+v", g.Token, w.check("a").Lock)
		}
	})
}

func TestAgainWithMoreKeys(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.acquire("alice", "a")
		g := w.acquire("alice", "a", "b")
		equal(w, "keys", g.Keys, []lease.KeyGrant{
			{Key: "a", Token: a.Token, Reentrant: true, Lease: a.LeaseID},
			{Key: "b", Token: g.Token, Lease: g.LeaseID},
		})
		if g.Token <= a.Token || g.LeaseID == a.LeaseID {
			t.Errorf("%+v", g)
		}
		// Each lease is released alone.
		_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", Lease: g.LeaseID})
		w.must(err)
		if !w.locked("a") || w.locked("b") {
			t.Error("the second lease holds more than it took")
		}
	})
}

func TestSiblingsExcludeEachOther(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice/one", "a")
		if h := w.refused("alice/two", "a"); h.Owner != "alice/one" {
			t.Errorf("%+v", h)
		}
		w.acquire("alice/two", "b")
		w.refused("alice/one", "b")
		// What a child holds does not belong to its parent, who may release it.
		w.refused("alice", "a")
		w.release("alice", "a")
		w.acquire("alice", "a")
	})
}
