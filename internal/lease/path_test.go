package lease_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
)

func TestPathsKeepOthersOut(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.acquire("alice", "path:src/api/**")
		if g.Keys[0].Key != "path:src/api/**" || g.Token == 0 {
			t.Errorf("%+v", g)
		}
		for _, p := range []string{"src/api/**", "src/api", "src/api/v1/get.go", "src/**", "src", "**/*.go", "SRC/api"} {
			if h := w.refused("bob", "path:"+p); h.Owner != "alice" || h.Key != "path:src/api/**" || h.Asked != "path:"+p || h.Token != g.Token {
				t.Errorf("%s: %+v", p, h)
			}
			if c := w.check("path:" + p); !c.Locked || c.Lock.Owner != "alice" {
				t.Errorf("%s: %+v", p, c)
			}
		}
		w.acquire("bob", "path:src/web/**", "path:src/*.md", "src/api") // a task of that name is something else
		equal(w, "records", w.kinds("path/"), []string{"path/src/*.md", "path/src/api/**", "path/src/web/**"})
		w.must(w.renew("alice", "path:src/api/**"))
		w.unchanged("a release by another", func() {
			if _, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "bob", Keys: []string{"path:src/api/**"}}); err == nil {
				t.Error("released")
			}
		})
		w.release("alice", "path:src/api/**")
		if w.locked("path:src/api/x") {
			t.Error("still locked")
		}
		later := w.acquire("bob", "path:src/api/x")
		if later.Token <= g.Token {
			t.Errorf("token %d after %d", later.Token, g.Token)
		}
	})
}

// What is one owner's, or a parent's, is in nobody's way; what a child or a
// sibling has, is.
func TestPathsInTheFamily(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("s", "path:src/**")
		w.acquire("s", "path:src/api")
		w.acquire("s/a", "path:src/web")
		w.acquire("s/a", "path:src/web/x")
		if g := w.acquire("s/b", "path:src/**"); !g.Keys[0].Reentrant {
			t.Errorf("%+v", g)
		}
		w.refused("s/b", "path:src/web/y")
		w.refused("s", "path:src/web/y")
		w.release("s", "path:src/**")
		w.refused("t", "path:src/web/y")
		w.acquire("t", "path:src/other")
		if _, err := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "path:src/web/x/y", HeldBy: "s/a"}); err != nil {
			t.Error(err)
		}
		if _, err := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "path:src/**", HeldBy: "s/a"}); !errors.Is(err, lease.ErrLost) {
			t.Errorf("half of a path is not held: %v", err)
		}
	})
}

// An overlapping lock that has expired is ended, or its owner could renew it.
func TestExpiredPathsAreTakenOver(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"path:src/api", "path:docs", "deploy"}, TTL: time.Minute})
		time.Sleep(2 * time.Minute)
		if w.locked("path:src/**") {
			t.Error("locked by what has expired")
		}
		g := w.acquire("bob", "path:src/**", "path:docs/*")
		equal(w, "took over", g.TookOver, []lease.TakenOver{
			{Key: "path:docs", Owner: "alice", Why: lease.Expired},
			{Key: "path:src/api", Owner: "alice", Why: lease.Expired},
		})
		w.want(w.renew("alice", "path:src/api"), lease.ErrLost)
		w.want(w.renew("alice", "deploy"), lease.ErrLost) // half a lease does not count
		if w.holder("path:docs") != "bob" {
			t.Error(w.holder("path:docs"))
		}
	})
}

func TestWaitingForPaths(t *testing.T) {
	near(t, func(w *world) {
		w.acquire("a", "path:src/api/x")
		w.acquire("b", "path:src/web")
		all := w.wait("c", "path:src/**")
		other := w.wait("d", "path:src/cli") // free, but c came first
		if h := w.refused("e", "path:src/web/y"); h.Ahead != 1 {
			t.Errorf("%+v", h)
		}
		w.acquire("e", "path:docs")
		w.acquire("a", "path:src/a.go") // c cannot be served before a anyway
		w.waiting(all, other)
		w.release("a", "path:src/api/x", "path:src/a.go")
		w.waiting(all, other)
		w.release("b", "path:src/web")
		w.served(all)
		w.waiting(other)
		w.release("c", "path:src/**")
		w.served(other)
	})
}

func TestAPathThatNobodyWaitsForAnyMore(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("a", "path:src/x")
		all := w.wait("b", "path:src")
		behind := w.wait("c", "path:src/y")
		w.waiting(all, behind)
		w.stop(all)
		w.served(behind)
	})
	bubble(t, func(w *world) { // a ticket that its owner left behind lapses
		w.acquire("a", "path:src/x")
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "b", Keys: []string{"path:src"}, Wait: time.Second})
		if h := as[*lease.HeldError](w, err); h.Position != 1 {
			t.Errorf("%+v", h)
		}
		w.refused("c", "path:src/y")
		w.acquire("b", "path:src/y") // its own ticket is not in its way
		w.release("b", "path:src/y")
		time.Sleep(time.Minute)
		w.acquire("c", "path:src/y")
	})
}

func TestPathCircles(t *testing.T) {
	near(t, func(w *world) {
		w.acquire("a", "path:src/a")
		w.acquire("b", "path:src/b")
		first := w.wait("a", "path:src/b/x")
		e := as[*lease.DeadlockError](w, w.wait("b", "path:src/a/y").err)
		equal(w, "chain", chain(e), "b waits for path:src/a/y, a waits for path:src/b/x")
		w.release("b", "path:src/b")
		w.served(first)
	})
	near(t, func(w *world) { // through a ticket for an overlapping path
		w.acquire("a", "path:src/a")
		w.acquire("c", "deploy")
		all := w.wait("b", "path:src/**")
		behind := w.wait("c", "path:src/c")
		e := as[*lease.DeadlockError](w, w.wait("a", "deploy").err)
		equal(w, "chain", chain(e), "a waits for deploy, c waits for path:src/c, b waits for path:src/**")
		w.stop(behind, all)
	})
}

func TestDamagedPathsAreNotFree(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("a", "path:src/a")
		w.overwrite("path/src/[x]", `{"key":"path:src/[x]","lease":"b/1","owner":"b"}`)
		w.want(w.try("c", "path:docs"), driver.ErrDamaged)
		w.acquire("c", "a task")
	})
	bubble(t, func(w *world) {
		w.overwrite("path/src/a", `{}`)
		w.want(w.try("c", "path:src/**"), driver.ErrDamaged)
		w.acquire("c", "path:docs")
	})
}

func TestTouching(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("a", "path:src/api")
		w.grant(lease.AcquireRequest{Owner: "a", Keys: []string{"path:old"}, TTL: time.Second})
		w.acquire("b", "path:src/*.go")
		time.Sleep(2 * time.Second)
		for _, c := range []struct {
			owner string
			place lease.Glob
			want  []string
		}{
			{"b", lease.File("src/api/x.go"), []string{"path:src/api"}},
			{"a/sub", lease.File("src/api/x.go"), nil},
			{"c", lease.File("src/x.go"), []string{"path:src/*.go"}},
			{"c", lease.Tree("src"), []string{"path:src/*.go", "path:src/api"}},
			{"c", lease.File("old"), nil},
			{"c", lease.File("README.md"), nil},
		} {
			found, err := lease.Touching(w.ctx, w.st, lease.TouchingRequest{Owners: []string{c.owner}, Places: []lease.Glob{c.place}})
			w.must(err)
			var keys []string
			for _, i := range found {
				keys = append(keys, i.Key)
			}
			equal(w, c.owner, keys, c.want)
		}
	})
}

func TestListAndCleanupSeePaths(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("a", "zebra", "path:src")
		w.grant(lease.AcquireRequest{Owner: "b", Keys: []string{"path:docs"}, TTL: time.Minute})
		time.Sleep(2 * time.Minute)
		l, err := lease.List(w.ctx, w.st, lease.ListRequest{})
		w.must(err)
		var keys []string
		for _, i := range l.Locks {
			keys = append(keys, i.Key+" "+string(i.State))
		}
		equal(w, "list", keys, []string{"path:docs expired", "path:src held", "zebra held"})
		c, err := lease.Cleanup(w.ctx, w.st, lease.CleanupRequest{By: "a"})
		w.must(err)
		if len(c.Freed) != 1 || c.Freed[0].Key != "path:docs" {
			t.Errorf("%+v", c)
		}
		_, err = lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "a", All: true})
		w.must(err)
		equal(w, "left", w.kinds("path/"), nil)
	})
}

// TestPathRace lets owners take overlapping paths as fast as they can, with
// and without waiting; no two of them may ever have a file in common.
func TestPathRace(t *testing.T) {
	w := newWorld(t)
	paths := []string{"path:src", "path:src/a", "path:src/*.go", "path:src/a/**", "path:src/b/x", "path:**/x", "path:docs"}
	held := map[string]string{} // key → owner
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n := range 6 {
		owner, rng := fmt.Sprintf("o%d", n), rand.New(rand.NewPCG(7, uint64(n)))
		wg.Go(func() {
			for range 150 {
				keys := []string{paths[rng.IntN(len(paths))], paths[rng.IntN(len(paths))]}[:1+rng.IntN(2)]
				r := lease.AcquireRequest{Owner: owner, Keys: keys}
				if rng.IntN(3) == 0 {
					r.Wait = time.Minute
				}
				g, err := lease.Acquire(w.ctx, w.st, r)
				if held := new(lease.HeldError); errors.As(err, &held) {
					continue
				}
				if err != nil {
					t.Errorf("%s %v: %v", owner, keys, err)
					return
				}
				mu.Lock()
				for _, k := range g.Keys {
					for other, by := range held {
						if a, _ := lease.ParseGlob(k.Key[5:]); by != owner {
							if b, _ := lease.ParseGlob(other[5:]); a.Overlaps(b) {
								t.Errorf("%s has %s while %s has %s", owner, k.Key, by, other)
							}
						}
					}
					held[k.Key] = owner
				}
				mu.Unlock()
				time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
				mu.Lock()
				for _, k := range g.Keys {
					delete(held, k.Key)
				}
				mu.Unlock()
				if _, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: owner, Keys: keys}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	equal(w, "left", slices.Concat(w.kinds("path/"), w.kinds("queue/")), nil)
}
