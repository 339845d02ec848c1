package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

func TestRelease(t *testing.T) {
	for _, c := range []struct {
		name    string
		request func(g lease.Grant) lease.ReleaseRequest
		err     string // "", owner, lost, invalid
		left    []string
	}{
		{"keys", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Keys: []string{"b", "a", "a"}}
		}, "", nil},
		{"one of a batch", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Keys: []string{"a"}}
		}, "", []string{"b"}},
		{"one with its token", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Keys: []string{"b"}, Token: g.Token}
		}, "", []string{"a"}},
		{"the lease by its name", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Lease: g.LeaseID}
		}, "", nil},
		{"the lease by its id", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Lease: g.LeaseID[len("alice/"):]}
		}, "", nil},
		{"all", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", All: true}
		}, "", nil},
		{"together with a free key", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Keys: []string{"a", "b", "free"}}
		}, "", nil},
		{"a lease that is gone", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Lease: "alice/gone"}
		}, "", []string{"a", "b"}},
		{"by someone else", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "bob", Keys: []string{"a"}}
		}, "owner", []string{"a", "b"}},
		{"a lease by someone else", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "bob", Lease: g.LeaseID}
		}, "owner", []string{"a", "b"}},
		{"all of someone else", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "ali", All: true}
		}, "", []string{"a", "b"}},
		{"mine together with a foreign one", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Keys: []string{"a", "foreign"}}
		}, "owner", []string{"a", "b"}},
		{"an old token", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Keys: []string{"a"}, Token: g.Token - 1}
		}, "lost", []string{"a", "b"}},
		{"a token from the future", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Keys: []string{"a"}, Token: g.Token + 1}
		}, "lost", []string{"a", "b"}},
		{"one token for two keys", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Keys: []string{"a", "b"}, Token: g.Token}
		}, "invalid", []string{"a", "b"}},
		{"a token with a lease", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Lease: g.LeaseID, Token: g.Token}
		}, "", nil},
		{"another token with a lease", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", Lease: g.LeaseID, Token: g.Token - 1}
		}, "lost", []string{"a", "b"}},
		{"a token with all", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice", All: true, Token: g.Token}
		}, "invalid", []string{"a", "b"}},
		{"nothing", func(g lease.Grant) lease.ReleaseRequest {
			return lease.ReleaseRequest{Owner: "alice"}
		}, "invalid", []string{"a", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.acquire("zoe", "foreign")
				g := w.acquire("alice", "a", "b")
				r := c.request(g)
				var out lease.ReleaseResult
				var err error
				run := func() { out, err = lease.Release(w.ctx, w.st, r) }
				if c.err != "" {
					w.unchanged("a refused release", run)
				} else {
					run()
				}
				switch c.err {
				case "":
					w.must(err)
				case "owner":
					as[*lease.OwnerError](w, err)
				case "lost":
					w.want(err, lease.ErrLost)
				case "invalid":
					as[*lease.InvalidError](w, err)
				}
				var left []string
				for _, key := range []string{"a", "b"} {
					if w.locked(key) {
						left = append(left, key)
					}
				}
				equal(w, "still held", left, c.left)
				if n := 2 - len(c.left); len(out.Released) != n {
					t.Errorf("says %+v", out)
				}
				for _, rel := range out.Released {
					if rel.Owner != "alice" || rel.Token != g.Token {
						t.Errorf("says %+v", rel)
					}
				}
			})
		})
	}
}

func TestReleaseOfWhatIsFree(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("bob", "x")
		w.unchanged("releasing a free key", func() {
			out := w.release("alice", "a", "b")
			equal(w, "free", out.Free, []string{"a", "b"})
		})
	})
}

func TestReleaseOfAnExpiredLock(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Second})
		time.Sleep(time.Minute)
		w.release("alice", "a")
		if w.holder("a") != "" {
			t.Error("an expired lock cannot be released")
		}
	})
}

func TestPartialReleaseKeepsTheLease(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.acquire("alice", "a", "b", "c")
		w.release("alice", "a")
		bob := w.acquire("bob", "a")
		// The rest is still one lease, without what was released.
		out, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "alice", Lease: g.LeaseID})
		w.must(err)
		equal(w, "keys", out.Leases[0].Keys, []string{"b", "c"})
		_, err = lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", Lease: g.LeaseID})
		w.must(err)
		if w.holder("a") != "bob" || w.check("a").Lock.Token != bob.Token || w.locked("b") || w.locked("c") {
			t.Error("holders:", w.holder("a"), w.holder("b"), w.holder("c"))
		}
	})
}

func TestReleaseOfATicket(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a", "b")
		id := "my-request"
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "bob", ID: id, Keys: []string{"a", "b"}, Wait: time.Second})
		as[*lease.HeldError](w, err)
		equal(w, "waiters", w.waiters("a"), []string{"bob"})
		_, err = lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "carol", Lease: "bob/" + id})
		as[*lease.OwnerError](w, err)
		_, err = lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "bob", Lease: id})
		w.must(err)
		if left := append(w.kinds("queue/"), w.kinds("lease/bob/")...); len(left) > 0 {
			t.Error("left behind:", left)
		}
	})
}

func TestSessionEnd(t *testing.T) {
	bubble(t, func(w *world) {
		mine := []string{"claude:ab", "claude:ab/agent", "claude:ab/agent/deep"}
		others := []string{"claude:abc", "claude:a", "claude:abc/agent", "claude", "x/claude:ab"}
		for _, o := range append(mine, others...) {
			w.acquire(o, "of "+o[:1]+o[1:], "more of "+o)
		}
		// A ticket is released too.
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "claude:ab", Keys: []string{"of claude"}, Wait: time.Second})
		as[*lease.HeldError](w, err)
		out, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "claude:ab", All: true})
		w.must(err)
		if len(out.Released) != 2*len(mine) || len(w.waiters("of claude")) > 0 {
			t.Errorf("%+v", out)
		}
		for _, o := range mine {
			if w.locked("of "+o) || w.locked("more of "+o) {
				t.Error("still held by", o)
			}
		}
		for _, o := range others {
			if !w.locked("of "+o) || !w.locked("more of "+o) {
				t.Error("taken from", o)
			}
		}
		w.unchanged("ending it again", func() {
			out, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "claude:ab", All: true})
			w.must(err)
			if len(out.Released) > 0 {
				t.Errorf("%+v", out)
			}
		})
	})
}

// However much a session holds, ending it ends all of it.
func TestSessionEndOfAnySize(t *testing.T) {
	for _, size := range []struct{ leases, keys int }{{450, 1}, {15, lease.MaxKeys}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			bubble(t, func(w *world) {
				for i := range size.leases {
					var keys []string
					for k := range size.keys {
						keys = append(keys, fmt.Sprintf("k%03d-%03d", i, k))
					}
					w.acquire("claude:x", keys...)
				}
				w.acquire("other", "o")
				out, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "claude:x", All: true})
				w.must(err)
				if len(out.Released) != size.leases*size.keys {
					t.Errorf("released %d", len(out.Released))
				}
				equal(w, "left", w.kinds("lock/"), []string{"lock/o"})
			})
		})
	}
}
