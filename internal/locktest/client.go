package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A client works through one handle and remembers the grants it got.
type client struct {
	*history
	id     int
	st     *store.Store
	rand   *rand.Rand
	number int
	grants []grant
}

type grant struct {
	owner, key string
	token      int64
}

func key(k int) string { return fmt.Sprintf("key-%d", k) }

func (c *client) run(ctx context.Context, steps int) {
	for range steps {
		k := key(c.rand.IntN(keys))
		switch x := c.rand.IntN(100); {
		case x < 35 || len(c.grants) == 0:
			c.acquire(ctx, k)
		case x < 65:
			c.release(ctx, c.any(true))
		case x < 75:
			c.renew(ctx, c.any(false))
		case x < 85:
			c.write(ctx, c.any(false))
		case x < 92:
			c.check(ctx, k)
		default:
			c.breakKey(ctx, k)
		}
	}
}

// any picks a grant, old ones too: with those nothing may succeed any more.
func (c *client) any(forget bool) grant {
	i := len(c.grants) - 1 - min(c.rand.IntN(4)/2*c.rand.IntN(4), len(c.grants)-1)
	g := c.grants[i]
	if forget && c.rand.IntN(2) == 0 {
		c.grants = append(c.grants[:i], c.grants[i+1:]...)
	}
	return g
}

// acquire is made under a name of its own, so that no two are one owner. Half
// of those whose outcome is unknown are repeated until it is known.
func (c *client) acquire(ctx context.Context, k string) {
	c.number++
	r := lease.AcquireRequest{Owner: fmt.Sprintf("client-%d-%d", c.id, c.number), Keys: []string{k}, ID: "request", TTL: time.Hour}
	in, began := call{verb: "acquire", key: k, owner: r.Owner}, c.now()
	g, err := lease.Acquire(ctx, c.st, r)
	for n := 0; silent(err) && n < 20 && c.number%2 == 0; n++ {
		g, err = lease.Acquire(ctx, c.st, r)
	}
	var held *lease.HeldError
	switch {
	case err == nil:
		c.add(c.id, began, in, answer{"ok", g.Token})
		c.grants = append(c.grants, grant{r.Owner, k, g.Token})
	case errors.As(err, &held):
		c.add(c.id, began, in, answer{"held", held.Token})
	case silent(err), errors.Is(err, lease.ErrLost): // lost: granted, and broken before it was repeated
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unknown++
		c.pending = append(c.pending, porcupine.Operation{ClientId: c.id, Input: in, Call: began, Return: c.now()})
	default:
		c.fail(in, err)
	}
}

// settle finds out what became of the acquisitions whose outcome is unknown:
// history knows each owner. What was late has arrived by then.
func (c *client) settle(ctx context.Context) {
	if len(c.pending) == 0 {
		return
	}
	time.Sleep(100 * time.Millisecond)
	for _, op := range c.pending {
		in := op.Input.(call)
		h, err := lease.History(ctx, c.st, lease.HistoryRequest{Owner: in.owner})
		for silent(err) {
			h, err = lease.History(ctx, c.st, lease.HistoryRequest{Owner: in.owner})
		}
		if err != nil {
			c.fail(in, err)
			return
		}
		for _, e := range h.Events {
			if e.Event == "acquired" {
				c.add(op.ClientId, op.Call, in, answer{"ok", e.Token})
			}
		}
	}
}

func (c *client) release(ctx context.Context, g grant) {
	in, began := call{"release", g.key, g.owner, g.token}, c.now()
	out, err := lease.Release(ctx, c.st, lease.ReleaseRequest{Owner: g.owner, Keys: []string{g.key}, Token: g.token})
	if err == nil && len(out.Released) == 0 {
		c.add(c.id, began, in, answer{what: "free"})
		return
	}
	c.outcome(began, in, err)
}

func (c *client) renew(ctx context.Context, g grant) {
	in, began := call{"renew", g.key, g.owner, g.token}, c.now()
	_, err := lease.Renew(ctx, c.st, lease.RenewRequest{Owner: g.owner, Keys: []string{g.key}, Token: g.token})
	c.outcome(began, in, err)
}

// write is what any package does in the name of a holder.
func (c *client) write(ctx context.Context, g grant) {
	in, began := call{"write", g.key, g.owner, g.token}, c.now()
	_, err := c.st.Update(ctx, driver.Query{}, func(tx *store.Tx) error {
		if err := lease.Fence(tx, g.key, g.token); err != nil {
			return err
		}
		return tx.Put("test/"+g.key, map[string]int64{"token": g.token})
	})
	c.outcome(began, in, err)
}

func (c *client) check(ctx context.Context, k string) {
	in, began := call{verb: "check", key: k}, c.now()
	out, err := lease.Check(ctx, c.st, lease.CheckRequest{Key: k})
	switch {
	case err != nil:
		c.outcome(began, in, err)
	case out.Lock == nil:
		c.add(c.id, began, in, answer{what: "free"})
	default:
		c.add(c.id, began, in, answer{"held", out.Lock.Token})
	}
}

// breakKey repeats until the outcome is known.
func (c *client) breakKey(ctx context.Context, k string) {
	c.number++
	in, began := call{verb: "break", key: k}, c.now()
	r := lease.BreakRequest{Keys: []string{k}, By: fmt.Sprintf("root-%d", c.id), ID: fmt.Sprint("break-", c.number)}
	out, err := lease.Break(ctx, c.st, r)
	for n := 0; silent(err) && n < 100; n++ {
		out, err = lease.Break(ctx, c.st, r)
	}
	switch {
	case err != nil:
		c.fail(in, err)
	case len(out.Released) == 0:
		c.add(c.id, began, in, answer{what: "free"})
	default:
		c.add(c.id, began, in, answer{"ok", out.Released[0].Token})
	}
}

// silent reports that the store did not answer.
func silent(err error) bool {
	return errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnreachable)
}

func (c *client) outcome(began int64, in call, err error) {
	var owner *lease.OwnerError
	switch {
	case err == nil:
		c.add(c.id, began, in, answer{what: "ok"})
	case errors.Is(err, lease.ErrLost), errors.As(err, &owner):
		c.add(c.id, began, in, answer{what: "lost"})
	case errors.Is(err, store.ErrUnknown):
		c.add(c.id, began, in, answer{})
	case errors.Is(err, store.ErrUnreachable): // nothing happened
	default:
		c.fail(in, err)
	}
}

func (c *client) fail(in call, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors = append(c.errors, fmt.Errorf("client %d, %+v: %w", c.id, in, err))
}
