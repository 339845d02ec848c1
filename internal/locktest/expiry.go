package locktest

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Expiry lets leases expire and requires that every store shows and renews them
// alike. A late heartbeat of a lease that nobody took over renews all of it: its
// keys, ttl, max hold, reason, host and session are as they were. A lease that
// somebody took over, or that was cleaned up, is lost. open is called twice; both
// handles must lead to one store, which is empty.
func Expiry(t *testing.T, open func() *store.Store) {
	t.Helper()
	x := &expiry{T: t, mine: open(), other: open()}
	before := map[string]map[string]any{}
	for owner, keys := range map[string][]string{
		"by-key": {"k1", "k2", "k3"}, "by-lease": {"l1", "l2"}, "by-all": {"a1", "a2"}, "in-part": {"p1", "p2"},
		"taken": {"t1", "t2"}, "cleaned": {"c1", "c2"},
	} {
		g, err := lease.Acquire(t.Context(), x.mine, lease.AcquireRequest{
			Owner: owner, Keys: keys, TTL: 1500 * time.Millisecond, MaxHold: time.Hour,
			Reason: "reason of " + owner, Session: "session of " + owner, Worktree: "/worktree of " + owner,
		})
		x.must(err)
		before[owner] = x.lease(g.LeaseID)
	}
	x.endless()
	shown := x.locks()
	x.allExpire()
	x.stillEndless()
	x.same("locks that expired", x.locks(), shown)

	x.taken()
	for owner, r := range map[string]lease.RenewRequest{
		"by-key": {Keys: []string{"k2"}}, "by-lease": {Lease: id(before["by-lease"])}, "by-all": {All: true}, "in-part": {Keys: []string{"p1", "p2"}},
	} {
		r.Owner = owner
		out, err := lease.Renew(t.Context(), x.mine, r)
		x.must(err)
		if len(out.Leases) != 1 {
			t.Fatalf("%s: a late heartbeat renews %+v", owner, out.Leases)
		}
		x.same("lease after a late heartbeat "+owner, x.lease(out.Leases[0].LeaseID), before[owner])
	}
	x.cleaned()
	for _, owner := range []string{"taken", "cleaned"} {
		x.lost(lease.RenewRequest{Owner: owner, Keys: []string{owner[:1] + "1"}})
		x.lost(lease.RenewRequest{Owner: owner, Lease: id(before[owner])})
	}
}

// An expiry is a holder and somebody else, each with a handle of its own.
type expiry struct {
	*testing.T
	mine, other *store.Store
}

func (x *expiry) must(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

func (x *expiry) same(what string, got, want any) {
	x.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		x.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (x *expiry) lost(r lease.RenewRequest) {
	x.Helper()
	if _, err := lease.Renew(x.Context(), x.mine, r); !errors.Is(err, lease.ErrLost) {
		x.Errorf("heartbeat of %s %v%s: %v, not lost", r.Owner, r.Keys, r.Lease, err)
	}
}

// locks is what everybody sees of the locks, without what changes with time.
func (x *expiry) locks() map[string]lease.Info {
	x.Helper()
	all, err := lease.List(x.Context(), x.other, lease.ListRequest{})
	x.must(err)
	out := map[string]lease.Info{}
	for _, l := range all.Locks {
		l.State, l.HeartbeatAt, l.ExpiresAt = "", time.Time{}, lease.Expiry{}
		out[l.Key] = l
	}
	return out
}

// allExpire waits until every lease is over.
func (x *expiry) allExpire() {
	x.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		all, err := lease.List(x.Context(), x.other, lease.ListRequest{})
		x.must(err)
		held := 0
		for _, l := range all.Locks {
			if l.State != lease.Expired && l.Owner != "endless" {
				held++
			}
		}
		if held == 0 {
			return
		}
		if time.Now().After(deadline) {
			x.Fatalf("%d locks are held though their ttl is over", held)
		}
	}
}

// endless takes a lock without an end: one from the start, and one that had an
// end before.
func (x *expiry) endless() {
	x.Helper()
	for key, ttls := range map[string][]time.Duration{"e1": {lease.Endless}, "e2": {1500 * time.Millisecond, lease.Endless}} {
		for _, ttl := range ttls {
			g, err := lease.Acquire(x.Context(), x.mine, lease.AcquireRequest{Owner: "endless", Keys: []string{key}, TTL: ttl})
			x.must(err)
			if g.ExpiresAt.IsZero() != (ttl == lease.Endless) {
				x.Errorf("%s with a ttl of %s expires %s", key, ttl, g.ExpiresAt)
			}
		}
	}
}

// stillEndless requires that they are held once all others are over, and that a
// heartbeat does not change that.
func (x *expiry) stillEndless() {
	x.Helper()
	for range 2 {
		for _, key := range []string{"e1", "e2"} {
			c, err := lease.Check(x.Context(), x.other, lease.CheckRequest{Key: key})
			x.must(err)
			if !c.Locked || c.Lock.State != lease.Held || !c.Lock.ExpiresAt.IsZero() {
				x.Errorf("%s has no end, and is %+v", key, c.Lock)
			}
		}
		_, err := lease.Renew(x.Context(), x.mine, lease.RenewRequest{Owner: "endless", All: true})
		x.must(err)
	}
}

// taken has somebody take over one key of a lease: the whole lease ends.
func (x *expiry) taken() {
	x.Helper()
	g, err := lease.Acquire(x.Context(), x.other, lease.AcquireRequest{Owner: "heir", Keys: []string{"t2"}})
	x.must(err)
	x.same("taken over", g.TookOver, []lease.TakenOver{{Key: "t2", Owner: "taken", Why: lease.Expired}})
	x.ended("taken over", "t1", "t2")
}

// cleaned frees what is over: one lease that nobody renewed, and whichever of the
// others were so slow that they are over again.
func (x *expiry) cleaned() {
	x.Helper()
	out, err := lease.Cleanup(x.Context(), x.other, lease.CleanupRequest{By: "cleaner"})
	x.must(err)
	var keys []string
	for _, l := range out.Freed {
		keys = append(keys, l.Key)
	}
	if !slices.Contains(keys, "c1") || !slices.Contains(keys, "c2") {
		x.Errorf("cleaned up: %v, not c1 and c2", keys)
	}
	x.ended("expired", "c1", "c2")
}

// ended requires that history tells of the end of a lease with all its keys.
func (x *expiry) ended(how string, keys ...string) {
	x.Helper()
	h, err := lease.History(x.Context(), x.other, lease.HistoryRequest{})
	x.must(err)
	for _, e := range h.Events {
		if e.Event == how && slices.Contains(e.Keys, keys[0]) {
			x.same(how+" in history", e.Keys, keys)
			return
		}
	}
	x.Errorf("history does not tell of %v %s", keys, how)
}

// lease is all that the record of a lease says, but for the time of the last
// heartbeat.
func (x *expiry) lease(name string) (fields map[string]any) {
	x.Helper()
	x.must(x.mine.View(x.Context(), driver.Query{}, func(tx *store.Tx) error {
		e, err := store.Get[map[string]any](tx, "lease/"+name)
		fields = maps.Clone(e.Value)
		return err
	}))
	if fields == nil {
		x.Fatalf("there is no record of lease %s", name)
	}
	delete(fields, "renewedAt")
	fields["id"] = name
	return fields
}

func id(fields map[string]any) string { return fields["id"].(string) }
