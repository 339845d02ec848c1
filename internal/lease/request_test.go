package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

func TestRepeatedRequest(t *testing.T) {
	bubble(t, func(w *world) {
		r := lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, ID: "req-1", TTL: time.Minute}
		g := w.grant(r)
		time.Sleep(10 * time.Second)
		again := w.grant(r)
		if again.Token != g.Token || again.LeaseID != g.LeaseID || again.Keys[0].Reentrant {
			t.Errorf("%+v again after %+v", again, g)
		}
		equal(w, "history", w.history(), []string{"acquired a+b alice"})
		w.unchanged("its id with other keys", func() {
			for _, keys := range [][]string{{"c"}, {"a"}, {"a", "c"}} {
				other := r
				other.Keys = keys
				_, err := lease.Acquire(w.ctx, w.st, other)
				as[*lease.InvalidError](w, err)
			}
		})
		// Someone else may use the same id.
		w.grant(lease.AcquireRequest{Owner: "bob", Keys: []string{"x"}, ID: "req-1"})
	})
}

// A digest is compared while the request waits, holds, and after its end.
func TestRepeatedRequestWithAnotherDigest(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("zoe", "a")
		r := lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, ID: "req-1", Digest: "one"}
		other := r
		other.Digest = "two"
		refused := func(when string) {
			w.Helper()
			w.unchanged(when, func() {
				_, err := lease.Acquire(w.ctx, w.st, other)
				as[*lease.ReusedError](w, err)
			})
		}
		waits := r
		waits.Wait = time.Hour
		waiting := w.start(waits)
		w.waiting(waiting)
		refused("while it waits")
		w.release("zoe", "a")
		g := w.served(waiting)
		refused("while it holds")
		if again := w.grant(r); again.Token != g.Token {
			t.Errorf("%+v after %+v", again, g)
		}
		w.release("alice", "a")
		refused("after its end")
		_, err := lease.Acquire(w.ctx, w.st, r)
		w.want(err, lease.ErrLost)
	})
}

func TestRepeatedRequestWithMoreKeys(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, ID: "req-1"})
		w.unchanged("the same id with one key more", func() {
			_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, ID: "req-1"})
			if err == nil {
				t.Error("the request had a second effect")
			}
		})
	})
}

// However the lease ended, repeating its request does not begin a new one.
func TestRepeatedRequestAfterItsEnd(t *testing.T) {
	r := lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, ID: "req-1", TTL: time.Minute}
	for name, end := range map[string]func(w *world, g lease.Grant){
		"released": func(w *world, g lease.Grant) { w.release("alice", "a", "b") },
		"released in part": func(w *world, g lease.Grant) {
			w.release("alice", "b")
		},
		"released in two parts": func(w *world, g lease.Grant) {
			w.release("alice", "b")
			w.release("alice", "a")
		},
		"released in part and taken by another": func(w *world, g lease.Grant) {
			w.release("alice", "b")
			w.acquire("bob", "b")
		},
		"broken":     func(w *world, g lease.Grant) { w.breakKeys(lease.BreakRequest{By: "root", Keys: []string{"a"}}) },
		"cleaned up": func(w *world, g lease.Grant) { time.Sleep(time.Hour); w.cleanup(lease.CleanupRequest{}) },
		"taken over": func(w *world, g lease.Grant) { time.Sleep(time.Hour); w.acquire("bob", "a"); w.release("bob", "a") },
		"session ended": func(w *world, g lease.Grant) {
			_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", All: true})
			w.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				end(w, w.grant(r))
				w.unchanged("a repeated request", func() {
					for _, wait := range []time.Duration{0, time.Minute} {
						r.Wait = wait
						_, err := lease.Acquire(w.ctx, w.st, r)
						w.want(err, lease.ErrLost)
					}
				})
				other := r
				other.Keys = []string{"c"}
				_, err := lease.Acquire(w.ctx, w.st, other)
				as[*lease.InvalidError](w, err)
			})
		})
	}
}

// A call that is refused for its id must not touch what the id stands for.
func TestWrongUseOfAnIDHarmsNobody(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, ID: "held"})
		waiting := w.start(lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, ID: "waits", Wait: time.Hour})
		w.unchanged("the wrong use of an id", func() {
			for _, r := range []lease.AcquireRequest{
				{Owner: "alice", Keys: []string{"b"}, ID: "held", Wait: time.Minute},
				{Owner: "bob", Keys: []string{"b"}, ID: "waits", Wait: time.Minute},
			} {
				_, err := lease.Acquire(w.ctx, w.st, r)
				as[*lease.InvalidError](w, err)
			}
		})
		w.waiting(waiting)
		w.stop(waiting)
	})
}

// Replies get lost before and after the commit, requests arrive twice or late:
// each acquisition has one effect and knows its token.
func TestUnknownOutcomes(t *testing.T) {
	for name, o := range map[string]drivertest.FlakyOptions{
		"request lost":  {Before: 0.4},
		"reply lost":    {After: 0.4},
		"request late":  {Late: 0.4, MaxDelay: 200 * time.Millisecond},
		"request twice": {Twice: 0.6},
		"all of it":     {Before: 0.1, After: 0.1, Late: 0.1, Twice: 0.1, Read: 0.1, MaxDelay: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				for seed := range uint64(100) {
					o.Seed = seed
					flaky := drivertest.NewFlaky(w.mem, o)
					oneEffect(w, store.New(flaky), fmt.Sprintf("key-%d", seed))
					flaky.Settle()
				}
			})
		})
	}
}

func oneEffect(w *world, st *store.Store, key string) {
	w.Helper()
	r := lease.AcquireRequest{Owner: "alice", Keys: []string{key}, ID: "of-" + key}
	g, err := lease.Acquire(w.ctx, st, r)
	for err != nil {
		unknown(w, err)
		g, err = lease.Acquire(w.ctx, st, r)
	}
	if c := w.check(key); !c.Locked || c.Lock.Token != g.Token || c.Lock.LeaseID != g.LeaseID {
		w.Errorf("%s: granted %+v, recorded %+v", key, g, c.Lock)
	}
	_, err = lease.Release(w.ctx, st, lease.ReleaseRequest{Owner: "alice", Keys: []string{key}})
	for err != nil {
		unknown(w, err)
		_, err = lease.Release(w.ctx, st, lease.ReleaseRequest{Owner: "alice", Keys: []string{key}})
	}
	h, err := lease.History(w.ctx, w.st, lease.HistoryRequest{Key: key})
	w.must(err)
	if len(h.Events) != 2 || h.Events[0].Token != g.Token {
		w.Errorf("%s: %+v", key, h.Events)
	}
}

// A caller that hears that the key is held must not get it afterwards from a
// request that was thought lost.
func TestNoGrantAfterARefusal(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("zoe", "other")
		slow := &lateFirst{Store: w.mem}
		st := store.New(slow)
		slow.meanwhile = func() { w.acquire("bob", "a") }
		_, err := lease.Acquire(w.ctx, st, lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}})
		as[*lease.HeldError](w, err)
		w.release("bob", "a")
		if _, err := w.mem.Commit(w.ctx, slow.late); err == nil || w.locked("a") {
			t.Error("a lock that nobody knows of")
		}
	})
}

// lateFirst delays the first commit until the test delivers it.
type lateFirst struct {
	driver.Store
	meanwhile func()
	late      driver.Batch
}

func (l *lateFirst) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if l.meanwhile != nil {
		l.meanwhile()
		l.late, l.meanwhile = b, nil
		return 0, drivertest.ErrFlaky
	}
	return l.Store.Commit(ctx, b)
}

func TestDryRunChangesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, ID: "one", TTL: time.Hour})
		w.grant(lease.AcquireRequest{Owner: "bob", Keys: []string{"old"}, TTL: time.Second})
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "carol", Keys: []string{"a"}, Wait: time.Second})
		as[*lease.HeldError](w, err)
		time.Sleep(10 * time.Minute)
		for name, run := range map[string]func() error{
			"acquire": func() error {
				g, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "dave", Keys: []string{"old", "new"}, DryRun: true, Wait: time.Hour})
				if len(g.TookOver) != 1 || len(g.Keys) != 2 {
					t.Errorf("%+v", g)
				}
				return err
			},
			"acquire what is held": func() error {
				_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "dave", Keys: []string{"a"}, DryRun: true, Wait: time.Hour})
				as[*lease.HeldError](w, err)
				return nil
			},
			"acquire again": func() error {
				_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, DryRun: true})
				return err
			},
			"release": func() error {
				out, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", Keys: []string{"a"}, DryRun: true})
				if len(out.Released) != 1 {
					t.Errorf("%+v", out)
				}
				return err
			},
			"release lease": func() error {
				_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", Lease: g.LeaseID, DryRun: true})
				return err
			},
			"release all": func() error {
				out, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", All: true, DryRun: true})
				if len(out.Released) != 2 {
					t.Errorf("%+v", out)
				}
				return err
			},
			"break": func() error {
				_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"a"}, ID: "x", DryRun: true})
				return err
			},
			"renew": func() error {
				_, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "alice", Keys: []string{"a"}, Reason: ptr("x"), DryRun: true})
				return err
			},
			"renew all": func() error {
				_, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: "alice", All: true, DryRun: true})
				return err
			},
			"cleanup": func() error {
				_, err := lease.Cleanup(w.ctx, w.st, lease.CleanupRequest{By: "root", Silent: time.Second, DryRun: true})
				return err
			},
		} {
			w.unchanged(name, func() { w.must(run()) })
		}
	})
}

// A damaged record is an error of its own: never free, never overwritten.
func TestDamagedRecords(t *testing.T) {
	for _, c := range []struct{ kind, value string }{
		{"lock/", `{}`},
		{"lock/", `null`},
		{"lock/", `{"key":"a"`},
		{"lock/", `{"key":"b","lease":"alice/x","owner":"alice"}`},
		{"lock/", `{"key":"a","lease":"","owner":"alice"}`},
		{"lock/", `{"key":"a","lease":"alice/x","owner":"bob"}`},
		{"lease/", `{}`},
		{"lease/", `[]`},
		{"lease/", `{"owner":"alice","keys":["a"],"ttlSeconds":1e300}`},
		{"lease/", `{"owner":"alice","keys":["a"],"ttlSeconds":-1}`},
		{"lease/", `{"owner":"bob","keys":["a"],"ttlSeconds":60}`},
		{"lease/", `{"owner":"alice","ttlSeconds":60}`},
		{"queue/", `{"tickets":7}`},
		{"queue/", `"x"`},
	} {
		t.Run(c.kind+" "+c.value, func(t *testing.T) {
			bubble(t, func(w *world) {
				g := w.acquire("alice", "a")
				key := map[string]string{"lock/": "lock/a", "lease/": "lease/" + g.LeaseID, "queue/": "queue/a"}[c.kind]
				w.overwrite(key, c.value)
				w.unchanged("whatever is tried", func() {
					_, list := lease.List(w.ctx, w.st, lease.ListRequest{})
					_, check := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "a"})
					_, clean := lease.Cleanup(w.ctx, w.st, lease.CleanupRequest{By: "root"})
					for what, err := range map[string]error{"acquire": w.try("bob", "a"), "list": list, "check": check, "cleanup": clean} {
						w.want(err, driver.ErrDamaged)
						if err != nil && !strings.Contains(err.Error(), key) {
							t.Errorf("%s does not name the record: %v", what, err)
						}
					}
				})
			})
		})
	}
}

func unknown(w *world, err error) {
	w.Helper()
	if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrUnreachable) {
		w.Fatalf("error is %v, want %v", err, store.ErrUnknown)
	}
}
