package lease_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
)

func TestEndlessNeverExpires(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "section:S"}, TTL: lease.Endless, Reason: "mine"})
		if !g.ExpiresAt.IsZero() {
			t.Errorf("expires %s", g.ExpiresAt)
		}
		time.Sleep(20 * 365 * 24 * time.Hour)
		if h := w.refused("bob", "a"); !h.ExpiresAt.IsZero() || !strings.HasSuffix(h.Error(), "held by alice with no end") {
			t.Errorf("%v", h)
		}
		text, err := json.Marshal(w.check("a").Lock)
		if w.must(err); !strings.Contains(string(text), `"expiresAt":null`) {
			t.Errorf("%s", text)
		}
		w.cleanup(lease.CleanupRequest{By: "cleaner"})
		w.cleanup(lease.CleanupRequest{By: "cleaner", Silent: time.Minute})
		w.must(w.renew("alice", "a"))
		time.Sleep(20 * 365 * 24 * time.Hour)
		w.refused("bob", "section:S")
		waits := w.wait("bob", "a")
		w.settle()
		w.release("alice", "a")
		w.served(waits)
	})
}

// A lock of a person's own work survives every process: one that took it again
// too.
func TestEndlessSurvivesProcesses(t *testing.T) {
	bubble(t, func(w *world) {
		dead := host.Process{PID: 1 << 30, Start: "1", Boot: host.Self().Boot, NS: host.Self().NS}
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, Process: dead})
		if w.locked("a") {
			t.Fatal("the process of this test is not dead")
		}
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"b"}, TTL: lease.Endless})
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"b"}, Process: dead})
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"c"}, Process: host.Self()})
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"c"}, TTL: lease.Endless})
		for _, key := range []string{"b", "c"} {
			if l := w.check(key).Lock; l.State != lease.Held || l.PID != 0 || !l.ExpiresAt.IsZero() {
				t.Errorf("%s: %+v", key, l)
			}
		}
		// Whoever wants an end gets one again.
		g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"b"}, TTL: time.Hour})
		equal(w, "end", g.ExpiresAt.Sub(g.AcquiredAt), time.Hour)
	})
}

func TestEndlessIsForNoProcess(t *testing.T) {
	bubble(t, func(w *world) {
		var bad *lease.InvalidError
		for name, r := range map[string]lease.AcquireRequest{
			"process": {Process: host.Self()}, "group": {Group: 7}, "max hold": {MaxHold: time.Hour},
		} {
			r.Owner, r.Keys, r.TTL = "alice", []string{"a"}, lease.Endless
			if _, err := lease.Acquire(w.ctx, w.st, r); !errors.As(err, &bad) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := lease.Hold(w.ctx, w.st, lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: lease.Endless}); !errors.As(err, &bad) {
			t.Errorf("a holder that renews by itself: %v", err)
		}
		if _, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: lease.Endless + 1}); !errors.As(err, &bad) {
			t.Errorf("longer than without an end: %v", err)
		}
	})
}
