package lease_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

func (w *world) hold(r lease.AcquireRequest) *lease.Lease {
	w.Helper()
	l, err := lease.Hold(w.ctx, w.st, r)
	w.must(err)
	return l
}

func minute(owner string, keys ...string) lease.AcquireRequest {
	return lease.AcquireRequest{Owner: owner, Keys: keys, TTL: time.Minute}
}

// lostAfter requires that the lease is lost, and returns how long it took.
func (w *world) lostAfter(l *lease.Lease) time.Duration {
	w.Helper()
	start := time.Now()
	<-l.Context().Done()
	w.want(context.Cause(l.Context()), lease.ErrLost)
	w.want(l.Err(), lease.ErrLost)
	return time.Since(start)
}

func TestHeartbeatKeepsIt(t *testing.T) {
	bubble(t, func(w *world) {
		l := w.hold(minute("alice", "a", "b"))
		time.Sleep(24 * time.Hour)
		if l.Err() != nil || l.Context().Err() != nil || !w.locked("a") || w.check("b").Lock.Token != l.Token() {
			t.Errorf("%v, %+v", l.Err(), w.check("a").Lock)
		}
		w.must(l.Release(w.ctx))
		w.must(l.Release(w.ctx))
		if w.locked("a") || w.locked("b") || !errors.Is(context.Cause(l.Context()), context.Canceled) {
			t.Error("not released", context.Cause(l.Context()))
		}
	})
}

func TestHoldersOfOneOwnerExcludeEachOther(t *testing.T) {
	bubble(t, func(w *world) {
		l := w.hold(minute("alice", "a"))
		_, err := lease.Hold(w.ctx, w.st, minute("alice", "a"))
		as[*lease.HeldError](w, err)
		// A child of the holder uses what it holds, and releases only its own.
		inner := w.hold(minute(l.Owner(), "a", "b"))
		if inner.Grant().Keys[0].Token != l.Token() {
			t.Errorf("%+v", inner.Grant())
		}
		w.must(inner.Release(w.ctx))
		if !w.locked("a") || w.locked("b") {
			t.Error("the inner holder released what the outer took")
		}
		w.must(l.Release(w.ctx))
	})
}

func TestLoss(t *testing.T) {
	for name, c := range map[string]struct {
		lose   func(w *world, l *lease.Lease)
		within time.Duration
	}{
		"broken": {func(w *world, l *lease.Lease) {
			w.breakKeys(lease.BreakRequest{By: "root", Keys: []string{"b"}})
		}, 21 * time.Second},
		"broken and taken": {func(w *world, l *lease.Lease) {
			w.breakKeys(lease.BreakRequest{By: "root", Keys: []string{"a"}})
			w.acquire("bob", "a")
		}, 21 * time.Second},
		"one key released by its parent": {func(w *world, l *lease.Lease) {
			w.release("alice", "a")
		}, 21 * time.Second},
		"one key released and taken by another": {func(w *world, l *lease.Lease) {
			w.release("alice", "a")
			w.acquire("bob", "a")
		}, 21 * time.Second},
		"session ended": {func(w *world, l *lease.Lease) {
			_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", All: true})
			w.must(err)
		}, 21 * time.Second},
		"dropped by the store and taken over": {func(w *world, l *lease.Lease) {
			w.overwrite("lease/"+l.Grant().LeaseID, "")
			w.acquire("bob", "a")
		}, 21 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				l := w.hold(minute("alice", "a", "b"))
				time.Sleep(time.Hour + time.Second/3) // between two looks of the keeper
				c.lose(w, l)
				if d := w.lostAfter(l); d > c.within {
					t.Errorf("noticed after %s", d)
				}
				bob := w.holder("a")
				w.want(l.Release(w.ctx), lease.ErrLost)
				w.want(l.Release(w.ctx), lease.ErrLost)
				if w.holder("a") != bob {
					t.Error("a lost lease released what belongs to", bob)
				}
			})
		})
	}
}

// What is taken from the holder's parent is lost to the holder as well. The
// parent itself cannot release it meanwhile.
func TestLossOfAParentsKey(t *testing.T) {
	for _, key := range []string{"a", "b"} {
		bubble(t, func(w *world) {
			w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, TTL: time.Minute})
			l := w.hold(minute("alice", "a"))
			time.Sleep(time.Hour + time.Second/3) // the child keeps the parent's lease
			_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: "alice", Keys: []string{"a", "b"}})
			as[*lease.InUseError](w, err)
			w.breakKeys(lease.BreakRequest{By: "root", Keys: []string{key}})
			w.acquire("bob", "a")
			if d := w.lostAfter(l); d > 21*time.Second {
				t.Errorf("noticed after %s", d)
			}
			w.want(l.Release(w.ctx), lease.ErrLost)
			if w.holder("a") != "bob" {
				t.Error("a is held by", w.holder("a"))
			}
		})
	}
}

// A store that drops the record of a living holder gets it back.
func TestDroppedRecordIsWrittenAgain(t *testing.T) {
	bubble(t, func(w *world) {
		l := w.hold(lease.AcquireRequest{Owner: "alice", Keys: []string{"a", "b"}, TTL: time.Minute, Reason: "r"})
		w.overwrite("lease/"+l.Grant().LeaseID, "")
		time.Sleep(time.Hour)
		if lk := w.check("b").Lock; l.Err() != nil || lk.State != lease.Held || lk.Token != l.Token() || lk.Reason != "r" {
			t.Errorf("%v, %+v", l.Err(), lk)
		}
		w.must(l.Release(w.ctx))
		equal(w, "left", w.kinds("lock/"), nil)
	})
}

// The caller's context may end before the lease is lost: it is lost all the
// same, and its keeper ends.
func TestLossAfterTheCallerHasLeft(t *testing.T) {
	for name, lose := range map[string]func(w *world, o *outage){
		"broken and taken": func(w *world, o *outage) {
			w.breakKeys(lease.BreakRequest{By: "root", Keys: []string{"a"}})
			w.acquire("bob", "a")
		},
		"no store any more": func(w *world, o *outage) { o.state.Store("fails") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				o := &outage{Store: w.mem}
				ctx, cancel := context.WithCancel(w.ctx)
				l, err := lease.Hold(ctx, w.through(o).st, minute("alice", "a"))
				w.must(err)
				cancel()
				time.Sleep(10 * time.Minute)
				lose(w, o)
				time.Sleep(10 * time.Minute)
				w.want(l.Err(), lease.ErrLost)
				o.state.Store("")
				w.want(l.Release(ctx), lease.ErrLost)
			})
		})
	}
}

// outage is a store that can be made to fail, or to hang.
type outage struct {
	*memstore.Store
	state atomic.Value // "", "fails", "hangs", "deaf"
}

var errOutage = errors.New("outage")

func (o *outage) down(ctx context.Context) error {
	switch o.state.Load() {
	case "fails":
		return errOutage
	case "hangs":
		<-ctx.Done()
		return ctx.Err()
	case "deaf": // not even to its context
		time.Sleep(time.Hour)
		return errOutage
	}
	return nil
}

func (o *outage) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	if err := o.down(ctx); err != nil {
		return driver.Snapshot{}, err
	}
	return o.Store.Read(ctx, q)
}

func (o *outage) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if err := o.down(ctx); err != nil {
		return 0, err
	}
	return o.Store.Commit(ctx, b)
}

func TestOutage(t *testing.T) {
	trust, grace := lease.Window(time.Minute)
	for _, how := range []string{"fails", "hangs", "deaf"} {
		t.Run("for good: "+how, func(t *testing.T) {
			bubble(t, func(w *world) {
				o := &outage{Store: w.mem}
				l := w.through(o).hold(minute("alice", "a"))
				time.Sleep(10*time.Minute + time.Second/2) // between two looks: a heartbeat under way may still succeed
				o.state.Store(how)
				last := w.check("a").Lock.HeartbeatAt // the start of that heartbeat was not later
				w.lostAfter(l)
				if d := time.Since(last); d > trust || d+grace >= time.Minute {
					t.Errorf("lost %s after the last heartbeat, trust ends after %s", d, trust)
				}
				if how == "fails" && !strings.Contains(l.Err().Error(), errOutage.Error()) {
					t.Errorf("%v does not say why", l.Err())
				}
				o.state.Store("")
				w.want(l.Release(w.ctx), lease.ErrLost)
			})
		})
		t.Run("for a while: "+how, func(t *testing.T) {
			if how == "deaf" {
				t.Skip("a call that cannot be ended does not end")
			}
			bubble(t, func(w *world) {
				o := &outage{Store: w.mem}
				l := w.through(o).hold(minute("alice", "a"))
				for range 20 {
					time.Sleep(45 * time.Second)
					o.state.Store(how)
					time.Sleep(15 * time.Second) // a heartbeat or two are missed
					o.state.Store("")
				}
				if l.Err() != nil || !w.locked("a") {
					t.Error("lost by an outage that was short enough:", l.Err())
				}
				w.must(l.Release(w.ctx))
			})
		})
	}
	t.Run("release without end", func(t *testing.T) {
		bubble(t, func(w *world) {
			o := &outage{Store: w.mem}
			l := w.through(o).hold(minute("alice", "a"))
			o.state.Store("hangs")
			start := time.Now()
			if err := l.Release(w.ctx); err == nil || time.Since(start) > 2*time.Minute {
				t.Errorf("%v after %s", err, time.Since(start))
			}
		})
	})
}

// One heartbeat in three fails: that is life.
func TestFailingHeartbeats(t *testing.T) {
	bubble(t, func(w *world) {
		var n atomic.Int64
		l := w.through(&everyThird{Store: w.mem, n: &n}).hold(minute("alice", "a"))
		time.Sleep(time.Hour)
		if l.Err() != nil || !w.locked("a") || n.Load() < 100 {
			t.Errorf("%v after %d calls", l.Err(), n.Load())
		}
		_ = l.Release(w.ctx)
	})
}

type everyThird struct {
	*memstore.Store
	n *atomic.Int64
}

func (e *everyThird) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if e.n.Add(1)%3 == 2 {
		return 0, errOutage
	}
	return e.Store.Commit(ctx, b)
}

// Clocks jump and machines sleep: the one that has moved more counts.
func TestClocks(t *testing.T) {
	for name, c := range map[string]struct {
		steady, wall time.Duration // at once, in the middle of the work
		lost         bool
	}{
		"nothing":                      {0, 0, false},
		"the wall clock goes forward":  {0, time.Hour, true}, // as after a suspend: to be safe
		"the wall clock goes back":     {0, -time.Hour, false},
		"a small step forward":         {0, 10 * time.Second, false},
		"a small step back":            {0, -10 * time.Second, false},
		"suspend, both clocks moved":   {8 * time.Hour, 8 * time.Hour, true},
		"suspend, wall set back after": {8 * time.Hour, -time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				var steady, wall atomic.Int64
				l, err := lease.HoldOn(w.ctx, w.st, minute("alice", "a"), func() (time.Time, time.Time) {
					now := time.Now()
					return now.Add(time.Duration(steady.Load())), now.Round(0).Add(time.Duration(wall.Load()))
				})
				w.must(err)
				time.Sleep(10*time.Minute + time.Second/2) // between two looks: a heartbeat under way would use both clocks
				synctest.Wait()
				steady.Store(int64(c.steady))
				wall.Store(int64(c.wall))
				if (l.Err() != nil) != c.lost { // before any work, without a heartbeat
					t.Errorf("at once: %v", l.Err())
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if (l.Context().Err() != nil) != c.lost {
					t.Errorf("two seconds later: %v", context.Cause(l.Context()))
				}
				time.Sleep(10 * time.Minute)
				if !c.lost {
					w.must(l.Err())
					w.must(l.Release(w.ctx))
				} else {
					w.want(l.Release(w.ctx), lease.ErrLost)
				}
			})
		})
	}
}

// Towards its max hold a lease gets shorter; its holder stops in time.
func TestHolderObeysMaxHold(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, time.Minute, time.Hour} {
		bubble(t, func(w *world) {
			counted := drivertest.NewCounted(w.mem)
			start := time.Now()
			l := w.through(counted).hold(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: ttl, MaxHold: 10 * time.Minute})
			w.lostAfter(l)
			if d := time.Since(start); d >= 10*time.Minute || d < 6*time.Minute {
				t.Errorf("ttl %s: lost after %s", ttl, d)
			}
			if n := counted.Take().Commits; n > int64(3*10*time.Minute/ttl)+50 {
				t.Errorf("ttl %s: %d commits", ttl, n)
			}
			_ = l.Release(w.ctx)
		})
	}
}

func TestContextOfTheCaller(t *testing.T) {
	bubble(t, func(w *world) {
		ctx, cancel := context.WithCancelCause(w.ctx)
		l, err := lease.Hold(ctx, w.st, minute("alice", "a"))
		w.must(err)
		why := errors.New("enough")
		cancel(why)
		w.want(context.Cause(l.Context()), why)
		// The work may take its time to stop: the lease is kept until Release.
		time.Sleep(time.Hour)
		if !w.locked("a") {
			t.Error("given up while the work may still be stopping")
		}
		w.must(l.Release(ctx))
		if w.locked("a") {
			t.Error("release did not outlive the caller's context")
		}
	})
}

func TestHoldOverABadNetwork(t *testing.T) {
	bubble(t, func(w *world) {
		hook := &hook{Store: w.mem, before: func() { time.Sleep(50 * time.Second) }}
		// The request takes 50 s of its ttl: trust counts from its start.
		start := time.Now()
		l := w.through(hook).hold(minute("alice", "a"))
		if d := time.Since(start); d != 50*time.Second {
			t.Fatal(d)
		}
		w.want(l.Err(), lease.ErrLost)
		// Nobody took it over, so releasing it at once is not a loss.
		w.must(l.Release(w.ctx))
	})
}
