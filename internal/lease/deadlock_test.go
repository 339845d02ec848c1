package lease_test

import (
	"fmt"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// chain is the text of a deadlock's error: "bob waits for a, alice waits for b".
func chain(e *lease.DeadlockError) string {
	var links []string
	for _, l := range e.Chain {
		links = append(links, l.Owner+" waits for "+l.Key)
	}
	return strings.Join(links, ", ")
}

// Each script acquires and waits in order. The last call closes the deadlock and
// is the youngest: it alone gets the error.
func TestCircles(t *testing.T) {
	type move struct {
		owner string
		keys  string
		waits bool
	}
	for _, c := range []struct {
		name  string
		moves []move
		chain string // empty: no deadlock, all wait
	}{
		{
			"two",
			[]move{{"alice", "a", false}, {"bob", "b", false}, {"alice", "b", true}, {"bob", "a", true}},
			"bob waits for a, alice waits for b",
		},
		{
			"three",
			[]move{{"alice", "a", false}, {"bob", "b", false}, {"carol", "c", false}, {"alice", "b", true}, {"bob", "c", true}, {"carol", "a", true}},
			"carol waits for a, alice waits for b, bob waits for c",
		},
		{
			"through a batch",
			[]move{{"alice", "a", false}, {"bob", "b", false}, {"alice", "b+x+y", true}, {"bob", "a+z", true}},
			"bob waits for a, alice waits for b",
		},
		{
			"through a child who waits",
			[]move{{"alice", "a", false}, {"bob", "b", false}, {"alice/sub", "b", true}, {"bob", "a", true}},
			"bob waits for a, alice/sub waits for b",
		},
		{
			"a child closes it",
			[]move{{"alice", "a", false}, {"bob", "b", false}, {"bob", "a", true}, {"alice/sub", "b", true}},
			"alice/sub waits for b, bob waits for a",
		},
		{
			"two workers of one owner",
			[]move{{"u/1", "a", false}, {"u/2", "b", false}, {"u/1", "b", true}, {"u/2", "a", true}},
			"u/2 waits for a, u/1 waits for b",
		},
		{
			"through a place in a queue",
			// The batch of bob stands before carol at b and needs a of alice;
			// alice waits for carol's c.
			[]move{{"alice", "a", false}, {"zoe", "b", false}, {"carol", "c", false}, {"bob", "a+b", true}, {"alice", "c", true}, {"carol", "b", true}},
			"carol waits for b, bob waits for a, alice waits for c",
		},
		{
			"a chain is not a deadlock",
			[]move{{"alice", "a", false}, {"bob", "b", false}, {"carol", "c", false}, {"alice", "b", true}, {"bob", "c", true}, {"dave", "a", true}},
			"",
		},
		{
			"a deadlock of others is not one's own",
			[]move{{"alice", "a", false}, {"bob", "b", false}, {"alice", "b", true}, {"dave", "a", true}},
			"",
		},
		{
			"names that begin alike are strangers",
			[]move{{"alice", "a", false}, {"bob", "b", false}, {"alice2", "b", true}, {"bob", "a", true}},
			"",
		},
		{
			"two for one key are not a deadlock",
			[]move{{"alice", "a", false}, {"bob", "a+b", true}, {"carol", "b+a", true}, {"dave", "b", true}},
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				var calls []*call
				for _, m := range c.moves {
					keys := strings.Split(m.keys, "+")
					if !m.waits {
						w.acquire(m.owner, keys...)
						continue
					}
					w.waiting(calls...)
					calls = append(calls, w.wait(m.owner, keys...))
					time.Sleep(time.Second)
				}
				defer w.stop(calls...)
				time.Sleep(time.Minute)
				last := calls[len(calls)-1]
				if c.chain == "" {
					w.waiting(calls...)
					return
				}
				w.waiting(calls[:len(calls)-1]...)
				<-last.done
				e := as[*lease.DeadlockError](w, last.err)
				if chain(e) != c.chain {
					t.Errorf("%s\nwant %s", chain(e), c.chain)
				}
				owner := c.moves[len(c.moves)-1].owner
				if left := w.kinds("lease/" + owner + "/"); len(left) != 1 && !strings.HasPrefix(owner, "alice/") {
					t.Errorf("the one who left holds %v, want what it had", left)
				}
				if s := e.Error(); !strings.Contains(s, "never end") || !strings.Contains(s, owner) {
					t.Error(s)
				}
			})
		})
	}
}

// The youngest leaves although an older one finds the deadlock at the same time.
func TestJoiningAtTheSameInstant(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			for range 5 {
				bubble(t, func(w *world) {
					key := func(i int) string { return fmt.Sprintf("k%d", i%n) }
					for i := range n {
						w.acquire(fmt.Sprintf("o%d", i), key(i))
					}
					var calls []*call
					for i := range n { // all at once: nobody settles in between
						c := &call{cancel: func(error) {}, done: make(chan struct{})}
						calls = append(calls, c)
						go func() {
							defer close(c.done)
							c.grant, c.err = lease.Acquire(w.ctx, w.st, lease.AcquireRequest{
								Owner: fmt.Sprintf("o%d", i), Keys: []string{key(i + 1)}, Wait: 5 * time.Minute,
							})
						}()
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					left := slices.DeleteFunc(slices.Clone(calls), func(c *call) bool { return !c.ended() })
					if len(left) != 1 {
						t.Fatalf("%d of %d left", len(left), n)
					}
					if e := as[*lease.DeadlockError](w, left[0].err); len(e.Chain) != n {
						t.Errorf("%s", chain(e))
					}
					// The one that left releases what it holds, and all are served.
					holder := slices.Index(calls, left[0])
					for range n - 1 {
						w.release(fmt.Sprintf("o%d", holder), key(holder))
						holder = (holder + n - 1) % n
						<-calls[holder].done
						w.must(calls[holder].err)
						w.release(fmt.Sprintf("o%d", holder), key(holder+1))
					}
				})
			}
		})
	}
}

// Batches in any order, all at once: by position they would block each other,
// and yet none leaves and all are served.
func TestBatchesAtTheSameInstant(t *testing.T) {
	for range 20 {
		bubble(t, func(w *world) {
			sets := [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"a", "b", "c"}, {"c", "b"}, {"a"}, {"b"}}
			done := make(chan error, len(sets))
			for i, keys := range sets {
				go func() {
					owner := fmt.Sprintf("o%d", i)
					_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: owner, Keys: keys, Wait: time.Hour})
					if err == nil {
						time.Sleep(time.Second)
						_, err = lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: owner, Keys: keys})
					}
					done <- err
				}()
			}
			for range sets {
				w.must(<-done)
			}
		})
	}
}

// A lock whose lease is over blocks nobody, so it closes no deadlock.
func TestExpiredLockClosesNoCircle(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Minute})
		w.grant(lease.AcquireRequest{Owner: "bob", Keys: []string{"b"}, TTL: time.Hour})
		w.grant(lease.AcquireRequest{Owner: "carol", Keys: []string{"c"}, TTL: time.Hour})
		time.Sleep(2 * time.Minute)
		// Bob waits for a batch that a alone would not block.
		bob := w.wait("bob", "a", "c")
		alice := w.wait("alice", "b")
		w.waiting(bob, alice)
		w.stop(bob, alice)
	})
}

// Of two who join queues at the same instant, behind others, and so wait for each
// other, the younger leaves its queue and the other stays.
func TestCircleOfTwoAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a")
		w.acquire("bob", "b")
		others := []*call{w.wait("carol", "a"), w.wait("dave", "b")}
		w.settle()
		calls := []*call{
			w.begin(lease.AcquireRequest{Owner: "alice", Keys: []string{"b"}, Wait: time.Hour}),
			w.begin(lease.AcquireRequest{Owner: "bob", Keys: []string{"a"}, Wait: time.Hour}),
		}
		w.settle()
		left := slices.DeleteFunc(calls, (*call).ended)
		if len(left) != 1 || len(w.waiters("a"))+len(w.waiters("b")) != 3 {
			t.Errorf("%d wait, %v for a and %v for b", len(left), w.waiters("a"), w.waiters("b"))
		}
		w.stop(append(others, left...)...)
	})
}

// Many batches ahead are looked at in few reads.
func TestCircleSearchIsBounded(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "a")
		w.queue(300, "o", func(i int) []string { return []string{"a", fmt.Sprintf("x%d", i)} })
		counted := drivertest.NewCounted(w.mem)
		last := w.through(counted).wait("last", "a", "y")
		w.waiting(last)
		if n := counted.Take().Reads; n > 30 {
			t.Errorf("%d reads to join behind 300 batches", n)
		}
		w.stop(last)
	})
}
