package lease_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Every world is strict: a commit that guards a whole kind because it read too
// many records, or a transaction that reads them one by one, fails the test.

// older writes a lease as a version did that allowed more keys.
func (w *world) older(owner, id string, ttl time.Duration, keys ...string) {
	w.Helper()
	put := func(key string, value any) {
		data, err := json.Marshal(value)
		w.must(err)
		w.overwrite(key, string(data))
	}
	now := time.Now().UTC()
	put("lease/"+owner+"/"+id, map[string]any{"owner": owner, "keys": keys, "ttlSeconds": ttl.Seconds(), "since": now, "renewedAt": now})
	for _, k := range keys {
		kind, name := "lock/", k
		if path, ok := strings.CutPrefix(k, "path:"); ok {
			kind, name = "path/", path
		}
		put(kind+name, map[string]any{"key": k, "lease": owner + "/" + id, "owner": owner, "since": now})
	}
}

// named returns n keys.
func named(format string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf(format, i))
	}
	return keys
}

// inSection is a Within that puts every task into one section.
func inSection(_ *store.Tx, key string) (string, error) {
	if kind, _ := lease.KindOf(key); kind == lease.Task {
		return "section:s", nil
	}
	return "", nil
}

func TestManyPathsBelowOne(t *testing.T) {
	for _, n := range []int{100, 250} {
		near(t, func(w *world) {
			for i, key := range named("path:src/f%04d", n) {
				w.acquire(fmt.Sprint("o", i), key)
			}
			if !w.locked("path:src") {
				t.Errorf("%d locks below src, and it counts as free", n)
			}
			src, err := lease.ParseGlob("src")
			w.must(err)
			found, err := lease.Touching(w.ctx, w.st, lease.TouchingRequest{Owners: []string{"me"}, Places: []lease.Glob{src}})
			w.must(err)
			if len(found) != n {
				t.Errorf("%d of %d locks touched", len(found), n)
			}
			w.refused("me", "path:src")
			me, you := w.wait("me", "path:src"), w.wait("you", "path:src/f0007")
			w.waiting(me, you)
			for i := range n {
				w.release(fmt.Sprint("o", i), fmt.Sprintf("path:src/f%04d", i))
			}
			w.served(me)
			w.waiting(you)
			w.release("me", "path:src")
			w.served(you)
		})
	}
}

func TestManyExpiredPathsBelowOne(t *testing.T) {
	const n = 1400
	bubble(t, func(w *world) {
		for i, key := range named("path:src/f%04d", n) {
			w.older(fmt.Sprint("o", i), "l", time.Minute, key)
		}
		time.Sleep(time.Hour)
		g := w.acquire("me", "path:src")
		if len(g.TookOver) != n || len(w.kinds("path/")) != 1 {
			t.Errorf("took over %d, %d locks are left", len(g.TookOver), len(w.kinds("path/")))
		}
		w.want(w.renew("o3", "path:src/f0003"), lease.ErrLost)
	})
}

// A lease that is renewed while many others end is not among them.
func TestRenewedWhileManyEnd(t *testing.T) {
	bubble(t, func(w *world) {
		keys := named("path:src/f%04d", 200)
		for i, key := range keys {
			w.grant(lease.AcquireRequest{Owner: fmt.Sprint("o", i), Keys: []string{key}, TTL: time.Minute})
		}
		time.Sleep(time.Hour)
		renewed := false
		w.before = func(b driver.Batch) { // between the look and the first end
			if last := keys[len(keys)-1]; !renewed {
				renewed = true
				w.must(w.renew("o199", last))
			}
		}
		if h := w.refused("me", "path:src"); h.Owner != "o199" {
			t.Errorf("refused for %+v", h)
		}
	})
}

func TestTakeOverOfManyLeases(t *testing.T) {
	bubble(t, func(w *world) { // each key in another lease, with as many keys as there can be
		var want []string
		for i := range lease.MaxKeys {
			keys := named(fmt.Sprintf("k%02d-%%02d", i), lease.MaxKeys)
			w.grant(lease.AcquireRequest{Owner: fmt.Sprint("o", i), Keys: keys, TTL: time.Minute})
			want = append(want, keys[0])
		}
		time.Sleep(time.Hour)
		g := w.acquire("me", want...)
		if len(g.TookOver) != lease.MaxKeys || len(w.kinds("lock/")) != lease.MaxKeys || len(w.kinds("lease/")) != 1 {
			t.Errorf("took over %d; left %v", len(g.TookOver), w.kinds("lease/"))
		}
	})
}

func TestBreakOfMany(t *testing.T) {
	keys := named("k%03d", 100)
	bubble(t, func(w *world) {
		for i, key := range keys {
			w.acquire(fmt.Sprint("o", i), key)
		}
		out, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "me", Keys: keys})
		w.must(err)
		if len(out.Released) != 100 || len(w.kinds("lock/")) != 0 {
			t.Errorf("broke %d", len(out.Released))
		}
		_, err = lease.Break(w.ctx, w.st, lease.BreakRequest{By: "me", Keys: append(keys, "x")})
		as[*lease.InvalidError](w, err)
	})
	bubble(t, func(w *world) { // of leases with all keys that there can be
		for i := range lease.MaxKeys {
			w.acquire(fmt.Sprint("o", i), named(fmt.Sprintf("k%02d-%%02d", i), lease.MaxKeys)...)
		}
		out, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "me", Keys: named("k%02d-00", lease.MaxKeys)})
		w.must(err)
		equal(w, "left", w.kinds("l"), nil)
		if len(out.Released) != lease.MaxKeys*lease.MaxKeys || len(out.Free) > 0 {
			t.Errorf("broke %d, free were %v", len(out.Released), out.Free)
		}
	})
}

// Leases from before there was MaxKeys go on to the end of their life.
func TestLeaseOfHundredKeys(t *testing.T) {
	keys := named("k%03d", 100)
	ends := map[string]func(w *world){
		"release by keys": func(w *world) { w.release("alice", keys...) },
		"release": func(w *world) {
			_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", Lease: "alice/big"})
			w.must(err)
		},
		"release all": func(w *world) {
			_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", All: true})
			w.must(err)
		},
		"break": func(w *world) {
			_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "bob", Keys: keys[:1]})
			w.must(err)
		},
		"cleanup": func(w *world) {
			time.Sleep(time.Hour)
			w.cleanup(lease.CleanupRequest{})
		},
		"take over": func(w *world) {
			time.Sleep(time.Hour)
			w.acquire("bob", keys[:lease.MaxKeys]...)
			w.release("bob", keys[:lease.MaxKeys]...)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.older("alice", "big", 10*time.Minute, keys...)
				time.Sleep(5 * time.Minute)
				for _, r := range []lease.RenewRequest{{Keys: keys[:1]}, {Keys: keys}, {Lease: "alice/big"}, {All: true}} {
					r.Owner = "alice"
					out, err := lease.Renew(w.ctx, w.st, r)
					w.must(err)
					if len(out.Leases) != 1 || len(out.Leases[0].Keys) != 100 {
						t.Errorf("%+v renewed %+v", r, out)
					}
				}
				w.refused("bob", keys[99])
				end(w)
				equal(w, "locks and leases", w.kinds("l"), nil)
			})
		})
	}
}

func TestSectionWithManyClaims(t *testing.T) {
	long.NotShort(t)
	n := 210 // by hand, more than 200 could be neither broken nor taken over
	claim := func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"section:s"}, TTL: time.Hour})
		for _, key := range named("t%03d", n) {
			w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{key}, TTL: time.Hour, OuterKey: inSection})
		}
	}
	bubble(t, func(w *world) {
		claim(w)
		as[*lease.InUseError](w, releaseErr(w, "alice", "section:s"))
		_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "bob", Keys: []string{"section:s"}})
		w.must(err)
		equal(w, "left", w.kinds("l"), nil)
	})
	bubble(t, func(w *world) {
		claim(w)
		time.Sleep(3 * time.Hour)
		w.acquire("bob", "section:s")
		equal(w, "left", w.kinds("lock/"), []string{"lock/section:s"})
		w.want(w.renew("alice", "t007"), lease.ErrLost)
	})
	n = 60
	bubble(t, func(w *world) {
		claim(w)
		for _, key := range named("t%03d", n) {
			w.release("alice", key)
		}
		w.release("alice", "section:s")
	})
	bubble(t, func(w *world) {
		claim(w)
		time.Sleep(3 * time.Hour)
		w.cleanup(lease.CleanupRequest{})
		equal(w, "left", w.kinds("l"), nil)
	})
	bubble(t, func(w *world) {
		claim(w)
		_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", All: true})
		w.must(err)
		equal(w, "left", w.kinds("l"), nil)
	})
}

func releaseErr(w *world, owner string, keys ...string) error {
	_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: owner, Keys: keys})
	return err
}

// Tasks in as many sections as a lease can have: sections count as keys.
func TestKeysAroundCount(t *testing.T) {
	bubble(t, func(w *world) {
		each := func(_ *store.Tx, key string) (string, error) {
			if kind, _ := lease.KindOf(key); kind == lease.Task {
				return "section:s" + key, nil
			}
			return "", nil
		}
		half := lease.MaxKeys / 2
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: named("k%d", half), OuterKey: each})
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "bob", Keys: named("b%d", half+1), OuterKey: each})
		as[*lease.InvalidError](w, err)
	})
}

// A queue in which most have gone away is passed as any other.
func TestManyLapsedTickets(t *testing.T) {
	long.NotShort(t)
	const n = 300
	bubble(t, func(w *world) {
		w.acquire("alice", "a")
		for i := range n {
			_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: fmt.Sprint("w", i), Keys: []string{"a"}, Wait: time.Millisecond})
			as[*lease.HeldError](w, err)
		}
		time.Sleep(time.Hour)
		w.release("alice", "a")
		for range n {
			w.acquire("bob", "a")
			w.release("bob", "a")
		}
		if left := w.kinds("queue/"); slices.Contains(left, "queue/a") {
			t.Error("tickets of an hour ago are still in the queue")
		}
	})
}
