package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

func TestCheck(t *testing.T) {
	bubble(t, func(w *world) {
		if c := w.check("a"); c.Locked || c.Lock != nil || c.Key != "a" {
			t.Errorf("%+v", c)
		}
		w.acquire("zoe", "other")
		g := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute})
		for _, c := range []struct {
			name string
			r    lease.CheckRequest
			lost bool
		}{
			{"the token in force", lease.CheckRequest{Token: g.Token}, false},
			{"an old token", lease.CheckRequest{Token: g.Token - 1}, true},
			{"a future token", lease.CheckRequest{Token: g.Token + 1}, true},
			{"mine", lease.CheckRequest{HeldBy: "alice"}, false},
			{"my parent's", lease.CheckRequest{HeldBy: "alice/sub"}, false},
			{"someone else's", lease.CheckRequest{HeldBy: "bob"}, true},
			{"of a name that begins alike", lease.CheckRequest{HeldBy: "alice2"}, true},
		} {
			c.r.Key = "a"
			out, err := lease.Check(w.ctx, w.st, c.r)
			if errors.Is(err, lease.ErrLost) != c.lost || (err == nil) == c.lost || !out.Locked || out.Lock.Owner != "alice" {
				t.Errorf("%s: %+v, %v", c.name, out, err)
			}
		}
		// The token stays in force until a later grant, also past its ttl.
		time.Sleep(2 * time.Minute)
		if out, err := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "a", Token: g.Token}); err != nil || out.Locked {
			t.Errorf("%+v, %v", out, err)
		}
		w.acquire("bob", "a")
		_, err := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "a", Token: g.Token})
		lost := as[*lease.LostError](w, err)
		if lost.Owner != "bob" || lost.Token != g.Token || lost.Now <= g.Token {
			t.Errorf("%+v", lost)
		}
		_, err = lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "free", HeldBy: "alice"})
		w.want(err, lease.ErrLost)
		_, err = lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "free", Token: 1})
		w.want(err, lease.ErrLost)
	})
}

func TestShowAndList(t *testing.T) {
	near(t, func(w *world) {
		_, err := lease.Show(w.ctx, w.st, "a")
		w.want(err, lease.ErrNotFound)
		list, err := lease.List(w.ctx, w.st, lease.ListRequest{})
		if err != nil || list.Locks == nil || len(list.Locks) > 0 {
			t.Errorf("%+v, %v: an empty list is a list", list, err)
		}
		at := time.Now().UTC()
		g := w.grant(lease.AcquireRequest{
			Owner: "alice", Keys: []string{"b", "a"}, TTL: time.Hour, Worktree: "/w", Session: "s", Reason: "r", Process: host.Self(),
		})
		bob, carol := w.wait("bob", "a"), w.wait("carol", "a", "b")
		waitedAt := time.Now()
		time.Sleep(time.Minute)
		w.must(w.renew("alice", "a"))
		seen := time.Now().UTC()

		show, err := lease.Show(w.ctx, w.st, "a")
		w.must(err)
		equal(w, "lock", show.Lock, &lease.Info{
			Key: "a", Owner: "alice", LeaseID: g.LeaseID, Token: g.Token, AcquiredAt: at, HeartbeatAt: seen, ExpiresAt: lease.Expiry{Time: seen.Add(time.Hour)},
			State: lease.Held, Host: host.Name(), PID: host.Self().PID, Life: "alive", Worktree: "/w", Session: "s", Reason: "r", Waiters: 2,
		})
		if len(show.Waiters) != 2 || show.Waiters[0].Owner != "bob" || show.Waiters[1].Owner != "carol" {
			t.Fatalf("%+v", show.Waiters)
		}
		first := show.Waiters[0]
		if first.State != lease.Held || first.PID != host.Self().PID || first.Since.After(waitedAt) || seen.Sub(first.LastSeen) > 20*time.Second {
			t.Errorf("%+v", first)
		}

		w.acquire("alice/sub", "section:x")
		w.acquire("alicia", "job:y")
		for _, c := range []struct {
			r    lease.ListRequest
			want []string
		}{
			{lease.ListRequest{}, []string{"a", "b", "job:y", "section:x"}},
			{lease.ListRequest{Owner: "alice"}, []string{"a", "b", "section:x"}},
			{lease.ListRequest{Owner: "alice/sub"}, []string{"section:x"}},
			{lease.ListRequest{Kind: lease.Task}, []string{"a", "b"}},
			{lease.ListRequest{Kind: lease.Job}, []string{"job:y"}},
			{lease.ListRequest{Kind: lease.Job, Owner: "alice"}, nil},
		} {
			list, err := lease.List(w.ctx, w.st, c.r)
			w.must(err)
			var keys []string
			for _, l := range list.Locks {
				keys = append(keys, l.Key)
			}
			equal(w, fmt.Sprintf("%+v", c.r), keys, c.want)
		}
		w.stop(bob, carol)
		time.Sleep(2 * time.Hour)
		if l := w.check("a"); l.Locked || l.Lock.State != lease.Expired || l.Lock.Waiters != 0 {
			t.Errorf("%+v", l.Lock)
		}
	})
}

func TestHistory(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, Reason: "fix it"})
		w.acquire("alice/sub", "b", "c")
		w.must(w.renew("alice", "a")) // a heartbeat is not an event
		time.Sleep(time.Millisecond)
		w.release("alice", "a")
		time.Sleep(time.Millisecond)
		w.release("alice/sub", "b")
		time.Sleep(time.Millisecond)
		w.acquire("bob", "e\u0301")
		for _, c := range []struct {
			r    lease.HistoryRequest
			want string
		}{
			{lease.HistoryRequest{}, "[acquired:a acquired:b+c released:a released:b acquired:\u00e9]"},
			{lease.HistoryRequest{Limit: 2}, "[released:b acquired:\u00e9]"},
			{lease.HistoryRequest{Key: "b"}, "[acquired:b+c released:b]"},
			{lease.HistoryRequest{Key: "e\u0301"}, "[acquired:\u00e9]"},
			{lease.HistoryRequest{Owner: "alice", Limit: 3}, "[acquired:b+c released:a released:b]"},
			{lease.HistoryRequest{Owner: "alice/sub"}, "[acquired:b+c released:b]"},
			{lease.HistoryRequest{Owner: "ali"}, "[]"},
		} {
			h, err := lease.History(w.ctx, w.st, c.r)
			w.must(err)
			got := []string{}
			for _, e := range h.Events {
				keys := e.Keys[0]
				if len(e.Keys) > 1 {
					keys += "+" + e.Keys[1]
				}
				got = append(got, e.Event+":"+keys)
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%+v: %v, want %s", c.r, got, c.want)
			}
		}
		h, err := lease.History(w.ctx, w.st, lease.HistoryRequest{Key: "a"})
		w.must(err)
		if e := h.Events[0]; e.Token != a.Token || e.Reason != "fix it" || e.Time.IsZero() || e.Lease != a.LeaseID {
			t.Errorf("%+v", e)
		}
		if e := h.Events[1]; e.Token != a.Token || e.By != "alice" {
			t.Errorf("%+v", e)
		}
		_, err = lease.History(w.ctx, w.st, lease.HistoryRequest{Limit: -1})
		as[*lease.InvalidError](w, err)
	})
}

func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name  string
		flaky drivertest.FlakyOptions
	}{
		{"with notifications", drivertest.FlakyOptions{}},
		{"with early ones", drivertest.FlakyOptions{EarlyWait: 0.3}},
		{"with none at all", drivertest.FlakyOptions{LostWait: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.acquire("alice", "before")
				ctx, cancel := context.WithCancelCause(w.ctx)
				enough := errors.New("enough")
				var got []string
				done := make(chan error)
				go func() {
					st := store.New(drivertest.NewFlaky(w.mem, c.flaky))
					done <- lease.Watch(ctx, st, lease.WatchRequest{Since: lease.FromNow}, nil, func(g lease.Group) error {
						for _, e := range g.Events {
							got = append(got, e.Event+" "+e.Keys[0])
						}
						if len(got) == 5 {
							return enough
						}
						return nil
					})
				}()
				synctest.Wait()
				w.acquire("alice", "a")
				w.release("alice", "a")
				time.Sleep(10 * time.Second)
				w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Second})
				time.Sleep(10 * time.Second)
				w.acquire("bob", "a")
				if err := <-done; !errors.Is(err, enough) {
					t.Error(err)
				}
				equal(w, "events", got, []string{"acquired a", "released a", "acquired a", "taken over a", "acquired a"})
				cancel(nil)
				if err := lease.Watch(ctx, w.st, lease.WatchRequest{}, nil, nil); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		})
	}
}

// losing shows commits that are not durable yet. It loses the newest event when
// somebody asks for it to last, once.
type losing struct {
	driver.Store
	lost bool
}

func (l *losing) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	snap, err := l.Store.Read(ctx, q)
	snap.Unsure = true
	return snap, err
}

func (l *losing) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if !l.lost && slices.ContainsFunc(b.Guards, func(g driver.Guard) bool { return strings.HasPrefix(g.Key, "event/") }) && b.Writes[0].Key == "meta/confirm" {
		l.lost = true
		snap, err := l.Store.Read(ctx, driver.Query{Ranges: []driver.Range{{Prefix: "event/", Limit: -1}}})
		if err != nil {
			return 0, err
		}
		if _, err := l.Store.Commit(ctx, driver.Batch{Writes: []driver.Write{{Key: snap.Records[0].Key}}}); err != nil {
			return 0, err
		}
	}
	return l.Store.Commit(ctx, b)
}

// Nobody gets an event that the store has shown and then lost.
func TestWatchShowsWhatLasts(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "before")
		enough := errors.New("enough")
		done, ready := make(chan error), make(chan struct{})
		var got string
		go func() {
			done <- lease.Watch(w.ctx, store.New(&losing{Store: w.mem}), lease.WatchRequest{Since: lease.FromNow}, func(int64) { close(ready) }, func(g lease.Group) error {
				got = g.Events[0].Event + " " + g.Events[0].Keys[0]
				return enough
			})
		}()
		<-ready
		w.acquire("alice", "lost")
		synctest.Wait()
		w.acquire("alice", "kept")
		if err := <-done; !errors.Is(err, enough) {
			t.Error(err)
		}
		equal(w, "event", got, "acquired kept")
	})
}

// doubtful never knows whether what it shows lasts, and counts who asks.
type doubtful struct {
	driver.Store
	asked atomic.Int32
}

func (d *doubtful) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	snap, err := d.Store.Read(ctx, q)
	snap.Unsure = true
	return snap, err
}

func (d *doubtful) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if b.Writes[0].Key == "meta/confirm" {
		d.asked.Add(1)
	}
	return d.Store.Commit(ctx, b)
}

// A waiter that looks and waits on relies on nothing: many of them would keep a
// server busy with commits.
func TestWaitersConfirmNothing(t *testing.T) {
	near(t, func(w *world) {
		w.acquire("alice", "a")
		d := &doubtful{Store: w.mem}
		w.st = store.New(d)
		bob := w.wait("bob", "a")
		time.Sleep(time.Minute)
		w.waiting(bob)
		equal(w, "commits that change nothing", d.asked.Load(), 0)
		w.release("alice", "a")
		<-bob.done
		w.must(bob.err)
	})
}
