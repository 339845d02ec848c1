package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

// A token is stale after a later grant, also when that one is over.
func TestOldTokenOfAFreeKey(t *testing.T) {
	bubble(t, func(w *world) {
		first := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, ID: "one"})
		w.release("alice", "a")
		ask := func(token, latest int64, id string) (release, broke error) {
			_, release = lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", Keys: []string{"a"}, Token: token, Latest: latest, Lease: id})
			_, broke = lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"a"}, Token: token})
			return release, broke
		}
		w.unchanged("a release that was done before", func() {
			for range 2 {
				release, broke := ask(first.Token, 0, first.LeaseID)
				w.must(release)
				w.must(broke)
				release, _ = ask(0, first.Token, "")
				w.must(release)
			}
		})
		w.acquire("bob", "a")
		w.release("bob", "a")
		w.unchanged("an old token", func() {
			release, broke := ask(first.Token, 0, "")
			w.want(release, lease.ErrLost)
			w.want(broke, lease.ErrLost)
			for _, r := range []struct {
				latest int64
				lease  string
			}{{first.Token, ""}, {0, first.LeaseID}} {
				release, _ = ask(0, r.latest, r.lease)
				w.want(release, lease.ErrLost)
			}
			_, broke = ask(first.Token+1000, 0, "")
			w.want(broke, lease.ErrLost)
		})
		w.release("alice", "a") // without a token, free is free
	})
}

// Of a long history all is looked at, and what it has lost is not taken for granted.
func TestOldTokenAfterMuchElse(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.acquire("alice", "a")
		w.release("alice", "a")
		for i := range 600 {
			w.acquire("bob", fmt.Sprint(i))
		}
		release := func() error {
			_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", Keys: []string{"a"}, Token: g.Token})
			return err
		}
		w.must(release())
		for _, key := range w.kinds("event/") {
			w.overwrite(key, "")
		}
		w.want(release(), lease.ErrLost)
	})
}

func TestMineIsInForce(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "path:src"}, TTL: time.Minute})
		mine := func(key string) error {
			_, err := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: key, HeldBy: "alice"})
			return err
		}
		w.must(mine("a"))
		w.must(mine("path:src"))
		time.Sleep(2 * time.Minute)
		w.want(mine("a"), lease.ErrLost)
		w.want(mine("path:src"), lease.ErrLost)
	})
}

func TestNeverHeld(t *testing.T) {
	bubble(t, func(w *world) {
		never := func(owner, key, want string) {
			t.Helper()
			e := as[*lease.LostError](w, w.renew(owner, key))
			if e.Never != want {
				t.Errorf("%s about %s: %v", owner, key, e)
			}
		}
		w.acquire("bob", "a")
		never("alice", "free", "alice")
		never("alice", "a", "alice")
		w.release("bob", "a")
		never("bob", "a", "")
		never("bob/child", "a", "")
		_, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "bob", Lease: "none"})
		if e := as[*lease.LostError](w, err); e.Never != "bob" {
			t.Error(e)
		}
	})
}

// A request that was granted what its owner had already has had its effect.
func TestRepeatedRequestThatTookNothing(t *testing.T) {
	r := lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, ID: "req-1"}
	for name, before := range map[string][]string{"all": {"a"}, "in two leases": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				r := r
				r.Keys = before
				var first lease.Grant
				for _, key := range before {
					first = w.acquire("alice", key)
				}
				for range 3 {
					if g := w.grant(r); g.Token != first.Token {
						t.Errorf("%+v after %+v", g, first)
					}
				}
				w.release("alice", before...)
				_, err := lease.Acquire(w.ctx, w.st, r)
				w.want(err, lease.ErrLost)
				w.acquire("alice", before...) // another grant: not what the request was given
				_, err = lease.Acquire(w.ctx, w.st, r)
				w.want(err, lease.ErrLost)
				r.Keys = []string{"c"}
				_, err = lease.Acquire(w.ctx, w.st, r)
				as[*lease.InvalidError](w, err)
			})
		})
	}
}

// A call does not take its own receipt for that of another one when the reply
// to its commit was lost.
func TestLostReplyOfANestedRequest(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a")
		injected := 0
		for seed := range uint64(50) {
			flaky := drivertest.NewFlaky(w.mem, drivertest.FlakyOptions{After: 0.5, Seed: seed})
			id := fmt.Sprintf("req-%d", seed)
			hold := func(st driver.Store) error {
				l, err := lease.Hold(w.ctx, store.New(st), lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, Then: lease.Once("alice", id)})
				if err == nil {
					w.must(l.Release(w.ctx))
				}
				return err
			}
			if err := hold(flaky); err != nil {
				unknown(w, err) // no reply at all came through
			}
			w.want(hold(w.mem), lease.ErrLost)
			injected += flaky.Injected()
		}
		if injected == 0 {
			t.Error("no reply was lost")
		}
	})
}
