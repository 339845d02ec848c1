package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// A turn is one call of a holder. Owner "A/r1" is the holder r1 of A; with an
// actor it holds for that one, with plain it is not a holder at all.
type turn struct {
	owner, keys string
	actor       string
	plain       bool
}

func (m turn) request(wait time.Duration) lease.AcquireRequest {
	r := lease.AcquireRequest{Keys: strings.Split(m.keys, "+"), Owner: m.owner, TTL: time.Hour, Wait: wait, For: m.actor}
	if !m.plain {
		i := strings.LastIndexByte(m.owner, '/')
		r.Owner, r.Holder = m.owner[:i], m.owner[i+1:]
	}
	return r
}

// do makes the call. Whoever is granted something holds it until the world ends.
func (w *world) do(ctx context.Context, m turn, wait time.Duration) error {
	if m.plain {
		_, err := lease.Acquire(ctx, w.st, m.request(wait))
		return err
	}
	l, err := lease.Hold(ctx, w.st, m.request(wait))
	if err == nil {
		context.AfterFunc(w.ctx, func() { _ = l.Release(context.Background()) })
	}
	return err
}

// Each script holds, then waits in order. The last to wait closes the deadlock and
// is the youngest: it alone gets the error.
func TestCirclesOfHolders(t *testing.T) {
	for _, c := range []struct {
		name  string
		holds []turn
		waits []turn
		chain string // empty: no deadlock, all wait
	}{
		{
			"nested holders",
			[]turn{{owner: "A/r1", keys: "a"}, {owner: "B/r1", keys: "b"}},
			[]turn{{owner: "A/r1/r2", keys: "b"}, {owner: "B/r1/r2", keys: "a"}},
			"B/r1/r2 waits for a, A/r1/r2 waits for b",
		},
		{
			"independent holders",
			[]turn{{owner: "A/r1", keys: "a"}, {owner: "B/r1", keys: "b"}},
			[]turn{{owner: "A/r2", keys: "b"}, {owner: "B/r2", keys: "a"}},
			"",
		},
		{
			"independent holders of one owner",
			[]turn{{owner: "A/r1", keys: "a"}, {owner: "A/r2", keys: "b"}},
			[]turn{{owner: "A/r3", keys: "b"}, {owner: "A/r4", keys: "a"}},
			"",
		},
		{
			"sessions",
			[]turn{{owner: "A/r1", keys: "a", actor: "A"}, {owner: "B/r1", keys: "b", actor: "B"}},
			[]turn{{owner: "A/r2", keys: "b", actor: "A"}, {owner: "B/r2", keys: "a", actor: "B"}},
			"B/r2 waits for a, A/r2 waits for b",
		},
		{
			"a session through its server, and by itself",
			[]turn{{owner: "A/mcp/r1", keys: "a", actor: "A"}, {owner: "B", keys: "b", plain: true}},
			[]turn{{owner: "A", keys: "b", plain: true}, {owner: "B", keys: "a", plain: true}},
			"B waits for a, A waits for b",
		},
		{
			"a session and a nested holder of its own command",
			[]turn{{owner: "A/r1", keys: "a", actor: "A"}, {owner: "B/r1", keys: "b", actor: "B"}},
			[]turn{{owner: "A/run", keys: "b"}, {owner: "B/run", keys: "a"}},
			"B/run waits for a, A/run waits for b",
		},
		{
			"a command works while its session waits",
			[]turn{{owner: "A/run", keys: "a"}, {owner: "B/r1", keys: "b", actor: "B"}},
			[]turn{{owner: "A/r2", keys: "b", actor: "A"}, {owner: "B/r2", keys: "a", actor: "B"}},
			"",
		},
		{
			"siblings take turns",
			[]turn{{owner: "A/r1", keys: "a", actor: "A"}},
			[]turn{{owner: "B", keys: "a+z", plain: true}, {owner: "A/r2", keys: "a", actor: "A"}, {owner: "A/r3", keys: "z+a", actor: "A"}},
			"",
		},
		{
			"a command takes turns with its session",
			[]turn{{owner: "A/r1", keys: "a", actor: "A"}},
			[]turn{{owner: "B", keys: "a+z", plain: true}, {owner: "A/run", keys: "a"}},
			"",
		},
		{
			"a child that waits for its session",
			[]turn{{owner: "A/c", keys: "c", plain: true}, {owner: "A/r1", keys: "a", actor: "A"}, {owner: "B", keys: "b", plain: true}},
			[]turn{{owner: "A/c", keys: "a", plain: true}, {owner: "A/r2", keys: "b", actor: "A"}, {owner: "B", keys: "c", plain: true}},
			"B waits for c, A/c waits for a, A/r2 waits for b",
		},
		{
			"a child that waits for its session closes it",
			[]turn{{owner: "A/c", keys: "c", plain: true}, {owner: "A/r1", keys: "a", actor: "A"}, {owner: "B", keys: "b", plain: true}},
			[]turn{{owner: "A/r2", keys: "b", actor: "A"}, {owner: "B", keys: "c", plain: true}, {owner: "A/c", keys: "a", plain: true}},
			"A/c waits for a, A/r2 waits for b, B waits for c",
		},
		{
			"users of one lease",
			[]turn{{owner: "P", keys: "a+b", plain: true}, {owner: "P/r1", keys: "a"}, {owner: "P/r2", keys: "b"}},
			[]turn{{owner: "P/r1/x", keys: "b"}, {owner: "P/r2/y", keys: "a"}},
			"P/r2/y waits for a, P/r1/x waits for b",
		},
		{
			"users of one lease, and what they need besides",
			[]turn{{owner: "P", keys: "a", plain: true}, {owner: "P/r1", keys: "a"}, {owner: "P/r2", keys: "c"}},
			[]turn{{owner: "P/r1/x", keys: "c+d"}, {owner: "P/r2/y", keys: "a+e"}},
			"P/r2/y waits for a, P/r1/x waits for c",
		},
		{
			"users of overlapping paths",
			[]turn{{owner: "P", keys: "path:src", plain: true}, {owner: "P/r1", keys: "path:src/a"}, {owner: "P/r2", keys: "c"}},
			[]turn{{owner: "P/r1/x", keys: "c"}, {owner: "P/r2/y", keys: "path:src"}},
			"P/r2/y waits for path:src, P/r1/x waits for c",
		},
		{
			"independent users of one lease",
			[]turn{{owner: "P", keys: "a+b", plain: true}, {owner: "P/r1", keys: "a"}, {owner: "P/r2", keys: "b"}},
			[]turn{{owner: "P/r3", keys: "b"}, {owner: "P/r4", keys: "a"}},
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			near(t, func(w *world) {
				var end context.CancelFunc
				w.ctx, end = context.WithCancel(w.ctx)
				defer w.settle()
				defer end()
				for _, m := range c.holds {
					w.must(w.do(w.ctx, m, 0))
				}
				var done []chan error
				for _, m := range c.waits {
					ended := make(chan error, 1)
					done = append(done, ended)
					go func() { ended <- w.do(w.ctx, m, 24*time.Hour) }()
					time.Sleep(time.Second)
				}
				time.Sleep(time.Minute)
				w.settle()
				for i, ended := range done {
					select {
					case err := <-ended:
						var e *lease.DeadlockError
						if i < len(done)-1 || !errors.As(err, &e) || chain(e) != c.chain {
							t.Errorf("%s: %v\nwant %s", c.waits[i].owner, err, c.chain)
						}
					default:
						if i == len(done)-1 && c.chain != "" {
							t.Errorf("%s waits, want %s", c.waits[i].owner, c.chain)
						}
					}
				}
			})
		})
	}
}
