package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

// WatchLosesNothing lets goroutines write a burst of events, in commits of one to
// three, while others watch: one from the start, one that ends after some events and
// goes on after the last revision that it has handled. Each must get every event
// once, in the order of revisions, and all events of a commit together.
func WatchLosesNothing(t *testing.T, open func() *store.Store, events int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	st := open()
	start, err := lease.EventsSince(ctx, st, lease.FromNow)
	must(t, err)
	results := make(chan []string)
	for _, atMost := range []int{events, max(1, events/23)} {
		watcher := open()
		go func() { results <- collect(ctx, t, watcher, start.Rev, events, atMost) }()
	}
	want := burst(ctx, t, st, events)
	for range 2 {
		got := <-results
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("a watcher got %d events of %d, or others", len(got), len(want))
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// burst writes events from some goroutines, and returns their names in order.
func burst(ctx context.Context, t *testing.T, st *store.Store, events int) []string {
	const writers = 4
	var names []string
	var all sync.WaitGroup
	for w := range writers {
		var mine []string
		for n := range events/writers + 1 {
			if len(names)+len(mine) < events {
				mine = append(mine, fmt.Sprintf("%d.%05d", w, n))
			}
		}
		names = append(names, mine...)
		all.Go(func() {
			for size := 1; len(mine) > 0; size = size%3 + 1 {
				group := mine[:min(size, len(mine))]
				if err := note(ctx, st, group); err != nil {
					t.Error(err)
					return
				}
				mine = mine[len(group):]
			}
		})
	}
	all.Wait()
	return names
}

// note writes a group of events in one commit. Each names the size of its group.
func note(ctx context.Context, st *store.Store, names []string) error {
	_, err := st.Update(ctx, driver.Query{}, func(tx *store.Tx) error {
		for _, name := range names {
			if err := lease.Log(tx, lease.Event{Event: "noted", Owner: "test", Reason: name, Why: fmt.Sprint(len(names))}); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// collect watches until it has so many events, in watches of at most some each.
func collect(ctx context.Context, t *testing.T, st *store.Store, since int64, events, atMost int) (names []string) {
	enough := errors.New("enough")
	for len(names) < events && !t.Failed() {
		begin := len(names)
		err := lease.Watch(ctx, st, lease.WatchRequest{Since: since}, nil, func(g lease.Group) error {
			if g.Gap || g.Rev <= since || fmt.Sprint(len(g.Events)) != g.Events[0].Why {
				t.Errorf("after revision %d comes a group that is not whole, not in order, or a gap: %+v", since, g)
			}
			since = g.Rev
			for _, e := range g.Events {
				names = append(names, e.Reason)
			}
			if len(names) >= min(events, begin+atMost) || t.Failed() {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) {
			t.Errorf("the watch ended after %d events: %v", len(names), err)
		}
	}
	return names
}

// WatchReadsNews requires that a watcher beside many old events reads about as many
// records as there are new ones.
func WatchReadsNews(t *testing.T, d driver.Store, old int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	st := store.New(d)
	for names := make([]string, 500); old > 0; old -= len(names) {
		must(t, note(ctx, st, names))
	}
	counted := drivertest.NewCounted(d)
	enough := errors.New("enough")
	const news = 20
	ready, got, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		n := 0
		done <- lease.Watch(ctx, store.New(counted), lease.WatchRequest{Since: lease.FromNow}, func(int64) { close(ready) }, func(lease.Group) error {
			if n++; n == news {
				return enough
			}
			got <- struct{}{}
			return nil
		})
	}()
	<-ready
	counted.Take()
	for n := range news {
		must(t, note(ctx, st, []string{fmt.Sprint(n)}))
		if n < news-1 {
			<-got
		}
	}
	if err := <-done; !errors.Is(err, enough) {
		t.Fatal(err)
	}
	c := counted.Take()
	t.Logf("%d new events: %d reads returned %d records", news, c.Reads, c.Records)
	// Each look returns the store's description, the marks, and what is new. On a busy
	// machine a watcher may look in vain now and then.
	if c.Records > 3*c.Reads+2*news {
		t.Errorf("%d reads returned %d records for %d new events", c.Reads, c.Records, news)
	}
}
