package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// remote asks as a server does for its client.
func remote(owner, id string, wait time.Duration, keys ...string) lease.AcquireRequest {
	return lease.AcquireRequest{Keys: keys, Owner: owner, ID: id, Remote: true, TTL: time.Minute, Wait: wait}
}

// TestRemoteLease: it names no process, and lease and token say what to renew and to
// release, as often as the client asks.
func TestRemoteLease(t *testing.T) {
	bubble(t, func(w *world) {
		g, err := lease.Acquire(w.ctx, w.st, remote("ci/r1", "r1", 0, "a", "b"))
		w.must(err)
		info, err := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "a"})
		w.must(err)
		equal(w, "pid", info.Lock.PID, 0)
		equal(w, "host", info.Lock.Host, "")
		renew := func(token int64) error {
			_, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "ci", Lease: g.LeaseID, Token: token})
			return err
		}
		release := func(token int64) error {
			_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "ci", Lease: g.LeaseID, Token: token})
			return err
		}
		w.must(renew(g.Token))
		w.want(renew(g.Token+1), lease.ErrLost)
		w.want(release(g.Token+1), lease.ErrLost)
		w.must(release(g.Token))
		w.must(release(g.Token)) // its reply was lost
		w.want(renew(g.Token), lease.ErrLost)

		g, err = lease.Acquire(w.ctx, w.st, remote("ci/r2", "r2", 0, "a"))
		w.must(err)
		_, err = lease.Break(w.ctx, w.st, lease.BreakRequest{Keys: []string{"a"}, By: "root", Reason: "stuck"})
		w.must(err)
		w.want(release(g.Token), lease.ErrLost)
		w.want(renew(g.Token), lease.ErrLost)

		g, err = lease.Acquire(w.ctx, w.st, remote("ci/r3", "r3", 0, "a"))
		w.must(err)
		time.Sleep(time.Minute)
		w.acquire("bob", "a")
		w.want(release(g.Token), lease.ErrLost)
		w.want(renew(g.Token), lease.ErrLost)
	})
}

// TestRemoteTicket: it stays when the client is gone, for as long as one whose wait was
// too short.
func TestRemoteTicket(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("bob", "a")
		ctx, gone := context.WithTimeout(w.ctx, 10*time.Second)
		defer gone()
		_, err := lease.Acquire(ctx, w.st, remote("ci/r1", "r1", time.Hour, "a"))
		w.want(err, context.DeadlineExceeded)
		shown, err := lease.Show(w.ctx, w.st, "a")
		w.must(err)
		if len(shown.Waiters) != 1 || shown.Waiters[0].PID != 0 || shown.Waiters[0].State != lease.Held {
			t.Fatalf("%+v", shown.Waiters)
		}
		_, err = lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "bob", Keys: []string{"a"}})
		w.must(err)
		held := as[*lease.HeldError](w, second(lease.Acquire(w.ctx, w.st, remote("ci/r2", "r2", 0, "a"))))
		equal(w, "ahead", held.Ahead, 1)
		_, err = lease.Acquire(w.ctx, w.st, remote("ci/r1", "r1", 0, "a"))
		w.must(err)
	})
}

// TestRemoteUnderParent: clients of one owner that holds the key exclude each other.
func TestRemoteUnderParent(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("ci", "a")
		g, err := lease.Acquire(w.ctx, w.st, remote("ci/r1", "r1", 0, "a"))
		w.must(err)
		equal(w, "lease", g.LeaseID, "ci/r1/r1")
		as[*lease.HeldError](w, second(lease.Acquire(w.ctx, w.st, remote("ci/r2", "r2", 0, "a"))))
		again, err := lease.Acquire(w.ctx, w.st, remote("ci/r1", "r1", 0, "a"))
		w.must(err)
		equal(w, "token", again.Token, g.Token)
		equal(w, "lease", again.LeaseID, g.LeaseID)
		_, err = lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "ci", Lease: g.LeaseID, Token: g.Token})
		w.must(err)
		_, err = lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "ci", Lease: g.LeaseID, Token: g.Token})
		w.must(err)
		_, err = lease.Acquire(w.ctx, w.st, remote("ci/r2", "r2", 0, "a"))
		w.must(err)
	})
}
