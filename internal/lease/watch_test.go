package lease_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
)

// since is what happened after a revision, as "rev: event, event" or "rev: gap".
func (w *world) since(rev int64) (out []string) {
	w.Helper()
	news, err := lease.EventsSince(w.ctx, w.st, rev)
	w.must(err)
	for _, g := range news.Groups {
		line := fmt.Sprintf("%d:", g.Rev)
		if g.Gap {
			line += " gap"
		}
		for _, e := range g.Events {
			if e.Rev != g.Rev {
				w.Errorf("%+v is in the group of revision %d", e, g.Rev)
			}
			line += " " + e.Event
		}
		out = append(out, line)
	}
	return out
}

func (w *world) now() int64 {
	w.Helper()
	news, err := lease.EventsSince(w.ctx, w.st, lease.FromNow)
	w.must(err)
	return news.Rev
}

func TestEventsSince(t *testing.T) {
	bubble(t, func(w *world) {
		start := w.now()
		a := w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Second})
		time.Sleep(10 * time.Second)
		b := w.acquire("bob", "a")
		equal(w, "all", w.since(start), []string{fmt.Sprintf("%d: acquired", a.Token), fmt.Sprintf("%d: taken over acquired", b.Token)})
		equal(w, "all, from the beginning", w.since(0), w.since(start))
		equal(w, "the second", w.since(a.Token), []string{fmt.Sprintf("%d: taken over acquired", b.Token)})
		equal(w, "nothing", w.since(b.Token), nil)
		_, err := lease.EventsSince(w.ctx, w.st, w.now()+1)
		as[*lease.AheadError](w, err)
		_, err = lease.EventsSince(w.ctx, w.st, -2)
		as[*lease.InvalidError](w, err)
	})
}

// Whoever asks for events that tidying or cleanup may have deleted learns of it, from
// the commit that deletes them on. Who is behind by less does not.
func TestGap(t *testing.T) {
	long.NotShort(t)
	for name, deletes := range map[string]func(*world){
		"tidying": func(*world) {},
		"cleanup": func(w *world) {
			_, err := lease.Cleanup(w.ctx, w.st, lease.CleanupRequest{By: "test"})
			w.must(err)
		},
		"unreadable marks": func(w *world) {
			w.overwrite("history/marks", `{"marks":7}`)
			w.pairs(100)
		},
	} {
		t.Run(name, func(t *testing.T) {
			near(t, func(w *world) {
				first := w.acquire("alice", "first").Token
				before := w.now()
				equal(w, "before", len(w.since(first)), 0)
				all := map[int64]bool{}
				for range 30 {
					w.logged(500)
					w.pairs(10)
				}
				deletes(w)
				for key, text := range w.records() {
					var rev int64
					if _, err := fmt.Sscan(text, &rev); strings.HasPrefix(key, "event/") {
						w.must(err)
						all[rev] = true
					}
				}
				got := w.since(before)
				if len(got) == 0 || got[0][len(got[0])-4:] != " gap" {
					t.Fatalf("no gap after revision %d: %.200q", before, got)
				}
				var gap int64
				_, _ = fmt.Sscanf(got[0], "%d:", &gap)
				maps.DeleteFunc(all, func(rev int64, _ bool) bool { return rev <= gap })
				equal(w, "commits after the gap", len(got)-1, len(all)) // nothing is lost beside it
				equal(w, "since the gap", w.since(gap), got[1:])
			})
		})
	}
}

// A watch that takes longer for a group than history keeps events gets a gap, and
// then all later ones.
func TestSlowWatcher(t *testing.T) {
	long.NotShort(t)
	near(t, func(w *world) {
		enough := errors.New("enough")
		var got []string
		since := w.now()
		w.acquire("alice", "a")
		err := lease.Watch(w.ctx, w.st, lease.WatchRequest{Since: since}, nil, func(g lease.Group) error {
			switch {
			case g.Gap:
				got = append(got, "gap")
			case len(got) == 0:
				got = append(got, g.Events[0].Event)
				for range 60 {
					w.logged(400)
				}
				w.acquire("alice", "last")
			case g.Events[0].Keys != nil && g.Events[0].Keys[0] == "last":
				got = append(got, "last")
				return enough
			}
			return nil
		})
		w.want(err, enough)
		equal(w, "groups", got, []string{"acquired", "gap", "last"})
	})
}

// In a copy, events have other revisions, and many of them one. Who asks with a
// revision of the old store gets a gap instead of them.
func TestWatchAfterAMove(t *testing.T) {
	near(t, func(w *world) {
		a := w.acquire("alice", "a")
		time.Sleep(time.Millisecond)
		w.release("alice", "a")
		to := store.New(memstore.New())
		c, err := w.st.ReadAll(w.ctx, "here")
		w.must(err)
		_, err = store.Fill(w.ctx, store.FillRequest{To: to, Copy: c, Carry: lease.Carry})
		w.must(err)
		w.st = to
		w.acquire("alice", "b")
		got := w.since(a.Token)
		if len(got) != 2 || got[0][len(got[0])-4:] != " gap" || got[1][len(got[1])-9:] != " acquired" {
			t.Errorf("after the move: %q", got)
		}
		h, err := lease.History(w.ctx, w.st, lease.HistoryRequest{Key: "a"})
		w.must(err)
		if len(h.Events) != 2 || h.Events[0].Was != a.Token || h.Events[0].Token != a.Token || h.Events[0].Rev <= a.Token {
			t.Errorf("history: %+v", h.Events)
		}
	})
}

// The event of a grant says how long its owner was in the queue.
func TestWaited(t *testing.T) {
	near(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute})
		bob := w.wait("bob", "a")
		time.Sleep(10 * time.Second)
		w.release("alice", "a")
		w.served(bob)
		carol := w.start(lease.AcquireRequest{Owner: "carol", Keys: []string{"a"}, Wait: 24 * time.Hour, TTL: time.Minute})
		time.Sleep(20 * time.Second)
		w.release("bob", "a")
		w.served(carol)
		dave := w.wait("dave", "a")
		time.Sleep(2 * time.Minute) // carol sends no heartbeat
		w.served(dave)
		h, err := lease.History(w.ctx, w.st, lease.HistoryRequest{})
		w.must(err)
		var got []string
		for _, e := range h.Events {
			got = append(got, fmt.Sprintf("%s %s %.0f", e.Event, e.Owner, e.Waited))
		}
		equal(w, "history", got, []string{
			"acquired alice 0", "released alice 0", "acquired bob 10", "released bob 0", "acquired carol 20", "taken over carol 60", "acquired dave 60",
		})
	})
}

// A look returns all of a burst, whatever its size.
func TestBurst(t *testing.T) {
	near(t, func(w *world) {
		since := w.now()
		for range 3 {
			w.logged(700)
		}
		news, err := lease.EventsSince(w.ctx, w.st, since)
		w.must(err)
		var sizes []int
		for _, g := range news.Groups {
			sizes = append(sizes, len(g.Events))
		}
		equal(w, "groups", sizes, []int{700, 700, 700})
	})
}
