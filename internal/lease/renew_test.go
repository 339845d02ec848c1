package lease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

func TestRenew(t *testing.T) {
	for _, c := range []struct {
		name    string
		request func(g lease.Grant) lease.RenewRequest
		err     string // "", owner, lost, invalid
	}{
		{"a key", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", Keys: []string{"a"}}
		}, ""},
		{"a key with its token", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", Keys: []string{"b"}, Token: g.Token}
		}, ""},
		{"the lease", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", Lease: g.LeaseID}
		}, ""},
		{"the lease by its id", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", Lease: strings.TrimPrefix(g.LeaseID, "alice/")}
		}, ""},
		{"all", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", All: true}
		}, ""},
		{"by a child", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice/sub", Lease: g.LeaseID}
		}, ""},
		{"by someone else", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "bob", Keys: []string{"a"}}
		}, "lost"},
		{"the lease by someone else", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "bob", Lease: g.LeaseID}
		}, "owner"},
		{"an old token", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", Keys: []string{"a"}, Token: g.Token - 1}
		}, "lost"},
		{"mine and a foreign one", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", Keys: []string{"a", "foreign"}}
		}, "lost"},
		{"what is free", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", Keys: []string{"free"}}
		}, "lost"},
		{"a lease that is gone", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", Lease: "gone"}
		}, "lost"},
		{"nothing", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice"}
		}, "invalid"},
		{"one token for two keys", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", Keys: []string{"a", "b"}, Token: g.Token}
		}, "invalid"},
		{"a reason that is too long", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", Keys: []string{"a"}, Reason: ptr(strings.Repeat("x", 4097))}
		}, "invalid"},
		{"two texts that are long enough", func(g lease.Grant) lease.RenewRequest {
			return lease.RenewRequest{Owner: "alice", Keys: []string{"a"}, Reason: ptr(strings.Repeat("x", 4096)), Worktree: ptr(strings.Repeat("x", 4096))}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			near(t, func(w *world) {
				w.acquire("zoe", "foreign")
				g := w.acquire("alice", "a", "b")
				time.Sleep(time.Minute)
				var out lease.RenewResult
				var err error
				run := func() { out, err = lease.Renew(w.ctx, w.st, c.request(g)) }
				switch c.err {
				case "":
					run()
					w.must(err)
					r := out.Leases[0]
					if len(out.Leases) != 1 || r.LeaseID != g.LeaseID || r.Token != g.Token || r.Owner != "alice" ||
						r.ExpiresAt.Sub(g.ExpiresAt.Time) != time.Minute || w.check("b").Lock.ExpiresAt != r.ExpiresAt {
						t.Errorf("%+v", out)
					}
					return
				case "owner":
					w.unchanged(c.name, run)
					as[*lease.OwnerError](w, err)
				case "lost":
					w.unchanged(c.name, run)
					w.want(err, lease.ErrLost)
				case "invalid":
					w.unchanged(c.name, run)
					as[*lease.InvalidError](w, err)
				}
			})
		})
	}
}

func TestRenewAll(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a")
		w.acquire("alice/sub", "b")
		w.acquire("alicia", "c")
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "alice", Keys: []string{"c"}, Wait: time.Second})
		as[*lease.HeldError](w, err)
		out, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "alice", All: true})
		w.must(err)
		if len(out.Leases) != 2 {
			t.Errorf("%+v", out)
		}
		out, err = lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "nobody", All: true})
		if err != nil || len(out.Leases) != 0 {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

func TestUpdateKeepsTheToken(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, Worktree: "/old", Reason: "why", Session: "s1"})
		_, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "alice", Keys: []string{"a"}, Worktree: ptr("/new=with=signs")})
		w.must(err)
		l := w.check("a").Lock
		if l.Worktree != "/new=with=signs" || l.Reason != "why" || l.Session != "s1" || l.Token != g.Token {
			t.Errorf("%+v", l)
		}
		_, err = lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "alice", Keys: []string{"a"}, Reason: ptr("")})
		w.must(err)
		if l := w.check("a").Lock; l.Worktree != "/new=with=signs" || l.Reason != "" || l.Token != g.Token {
			t.Errorf("%+v", l)
		}
		w.unchanged("an update by someone else", func() {
			_, err = lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "bob", Keys: []string{"a"}, Reason: ptr("mine now")})
			w.want(err, lease.ErrLost)
		})
	})
}

// A lease that is over stays behind in a move, its locks do not. A lock without a
// lease is free for others, and lost to its holder: nobody knows its ttl or what
// else it held.
func TestLockWithoutALease(t *testing.T) {
	t.Run("not renewed", func(t *testing.T) {
		bubble(t, func(w *world) {
			g := w.acquire("alice", "a", "b")
			w.overwrite("lease/"+g.LeaseID, "")
			if w.locked("a") || w.check("a").Lock.State != lease.Expired {
				t.Error("a lock without a lease keeps others out")
			}
			w.unchanged("a late heartbeat", func() {
				w.want(w.renew("alice", "a"), lease.ErrLost)
				w.want(w.renew("alice", "a", "b"), lease.ErrLost)
				_, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "alice", Lease: g.LeaseID})
				w.want(err, lease.ErrLost)
			})
		})
	})
	t.Run("taken over", func(t *testing.T) {
		bubble(t, func(w *world) {
			g := w.acquire("alice", "a", "b")
			w.overwrite("lease/"+g.LeaseID, "")
			bob := w.acquire("bob", "a")
			equal(w, "taken over", bob.TookOver, []lease.TakenOver{{Key: "a", Owner: "alice", Why: lease.Expired}})
			w.want(w.renew("alice", "a"), lease.ErrLost)
			w.acquire("carol", "b")
			if w.holder("a") != "bob" || w.holder("b") != "carol" {
				t.Error(w.holder("a"), w.holder("b"))
			}
		})
	})
	t.Run("nothing breaks", func(t *testing.T) {
		bubble(t, func(w *world) {
			g := w.acquire("alice", "a", "b", "c", "d")
			w.overwrite("lease/"+g.LeaseID, "")
			list, err := lease.List(w.ctx, w.st, lease.ListRequest{})
			w.must(err)
			if len(list.Locks) != 4 {
				t.Errorf("%+v", list)
			}
			_, err = lease.Show(w.ctx, w.st, "a")
			w.must(err)
			w.must(w.try("alice", "a")) // a new grant
			w.release("alice", "b")
			_, err = lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"c"}})
			w.must(err)
			out, err := lease.Cleanup(w.ctx, w.st, lease.CleanupRequest{By: "root"})
			w.must(err)
			if len(out.Freed) != 1 || out.Freed[0].Key != "d" {
				t.Errorf("%+v", out)
			}
			equal(w, "left", w.kinds("lock/"), []string{"lock/a"})
		})
	})
}
