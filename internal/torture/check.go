//go:build linux

package torture

import (
	"fmt"
	"slices"
	"time"
)

// A checker judges a history when it is complete.
type checker struct {
	Config
	ops           []op
	kills, pauses []span
	sizes         []sized // of the pool

	r      *Report
	grants map[string][]*op // by key, in the order of tokens
	alive  map[*op]int64    // when the last successful heartbeat of a grant began
	over   map[string]bool  // owners that were taken over
	killed map[int]int64    // when a row was killed
}

func (c *checker) run() *Report {
	c.r = &Report{
		Mode: c.Mode, Processes: c.Processes, Rounds: c.Rounds, Last: c.Last, Keys: c.Keys,
		Kills: len(c.kills), Pauses: len(c.pauses),
	}
	c.killed = map[int]int64{}
	for _, k := range c.kills {
		c.killed[k.row] = k.from
	}
	c.collect()
	for key, grants := range c.grants {
		c.order(key, grants)
		c.early(key, grants)
		c.late(key, grants)
		c.linear(key, grants)
	}
	if c.Pool > 0 {
		c.pool()
	}
	slices.SortStableFunc(c.r.Violations, func(a, b Violation) int {
		if a.Kind < b.Kind {
			return -1
		}
		return 1
	})
	return c.r
}

func (c *checker) fail(kind, key, format string, args ...any) {
	c.r.Violations = append(c.r.Violations, Violation{Kind: kind, Key: key, Text: fmt.Sprintf(format, args...)})
}

// collect counts, finds grants and heartbeats, and judges what an operation
// shows by itself.
func (c *checker) collect() {
	c.grants, c.alive, c.over = map[string][]*op{}, map[*op]int64{}, map[string]bool{}
	byToken := map[string]map[int64]*op{}
	for i := range c.ops {
		o := &c.ops[i]
		if o.Kind != opAcquire || o.Result != isOK {
			continue
		}
		c.r.Grants++
		c.r.TakeOvers += min(1, len(o.Took))
		if o.Waits {
			c.r.MaxWait = max(c.r.MaxWait, time.Duration(o.Return-o.Call))
		}
		c.alive[o] = o.Began
		for _, t := range o.Took {
			c.over[t.Owner] = true
		}
		for _, key := range o.Keys {
			c.grants[key] = append(c.grants[key], o)
			if byToken[key] == nil {
				byToken[key] = map[int64]*op{}
			}
			byToken[key][o.token(key)] = o
		}
	}
	for i := range c.ops {
		o := &c.ops[i]
		c.count(o)
		c.alone(o)
		if g := byToken[o.Keys[0]][o.token(o.Keys[0])]; g != nil && o.Kind == opRenew && o.Result == isOK && !o.Probe {
			c.alive[g] = max(c.alive[g], o.Call)
		}
	}
	for key, grants := range c.grants {
		slices.SortFunc(grants, func(a, b *op) int { return int(a.token(key) - b.token(key)) })
	}
}

func (c *checker) count(o *op) {
	switch {
	case o.Unreached:
		c.r.Unreached++
	case o.Kind == opPushed:
		c.r.Refused++
	case o.Result == isHeld:
		c.r.Held++
	case o.Result == isLost && !o.Probe:
		c.r.Lost++
	case o.Kind == opRenew && o.Result == isOK:
		c.r.Renewals++
	}
}

// ended reports whether the lease of a probe had surely ended in the store when
// it was asked: released, or granted to another. A holder that gave up by its own clock
// is lost to itself; its record stands until somebody comes.
func (c *checker) ended(probe *op) bool {
	key := probe.Keys[0]
	return slices.ContainsFunc(c.ops, func(o op) bool {
		if o.Probe || o.Result != isOK || o.Return > probe.Call || !slices.Contains(o.Keys, key) {
			return false
		}
		return o.Kind == opRelease && o.token(key) == probe.token(key) || o.Kind == opAcquire && o.token(key) > probe.token(key)
	})
}

// alone judges an operation without the others.
func (c *checker) alone(o *op) {
	key := o.Keys[0]
	switch {
	case o.Kind == opPushed && o.Trusted:
		c.fail("overlap", key, "worker %d with token %d trusts its lease and finds %s", o.Row, o.token(key), o.Found)
	case o.Result == isError:
		c.fail("error", key, "worker %d, %s: %s", o.Row, o.Kind, o.Err)
	case o.Probe && o.Result == isOK && c.ended(o):
		c.fail("stale", key, "%s with token %d was accepted after its lease had ended", o.Kind, o.token(key))
	case o.Kind == opAcquire && o.Waits && o.Result == isHeld:
		c.fail("unserved", key, "worker %d waited %v in vain", o.Row, time.Duration(o.Return-o.Call).Round(time.Millisecond))
	case o.Kind == opAcquire && o.Result == isLost:
		c.fail("error", key, "worker %d: acquire says lost", o.Row)
	}
}

// order requires that no token is granted twice, that a grant requested after
// another was reported has the larger token, and that grants are reported in the order
// of their tokens, except to a worker that slept until it was taken over. The grant
// of a "run" is reported to its command; the worker reads of it later, perhaps when
// the command has ended and somebody else has the key.
func (c *checker) order(key string, grants []*op) {
	first := never // when a grant with a higher token was first reported
	for i := len(grants) - 1; i >= 0; i-- {
		g := grants[i]
		if first < g.Began {
			c.fail("order", key, "token %d was asked for after a higher one had been told", g.token(key))
		} else if first < g.Return && !c.over[g.Owner] && !g.Untold && !grants[i+1].Untold {
			c.fail("order", key, "token %d was reported after a higher one", g.token(key))
		}
		if first = min(first, g.Return); i > 0 && grants[i-1].token(key) == g.token(key) {
			c.fail("order", key, "token %d was granted to workers %d and %d", g.token(key), grants[i-1].Row, g.Row)
		}
	}
}

// early requires that a holder was left alone for the whole of its ttl, unless
// its process was dead.
func (c *checker) early(key string, grants []*op) {
	byOwner := map[string]*op{}
	for _, g := range grants {
		byOwner[g.Owner] = g
	}
	unreached, last := c.unreached()
	for _, g := range grants {
		t, took := g.Took[key]
		victim := byOwner[t.Owner]
		if !took || victim == nil {
			continue
		}
		if t.Why == "dead" {
			at, dead := c.killed[victim.Row]
			switch {
			case !victim.Process:
				c.fail("early", key, "token %d: holder %s named no process and was called dead", g.token(key), t.Owner)
			case unreached[t.Owner] && (victim.Untold || last[victim.Row] < g.Return): // "run", or the worker itself, has come to its end
			case !dead || at > g.Return:
				c.fail("early", key, "token %d was taken from worker %d, which lives", g.token(key), victim.Row)
			}
			continue
		}
		if left := c.alive[victim] + int64(victim.TTL) - g.Return; left > 0 {
			c.fail("early", key, "token %d was taken from worker %d %v before its ttl ended", g.token(key), victim.Row, time.Duration(left))
		}
	}
}

// unreached are the owners who could not release what they held, because the
// server was away. last is the last call of each worker.
func (c *checker) unreached() (owners map[string]bool, last map[int]int64) {
	owners, last = map[string]bool{}, map[int]int64{}
	for _, o := range c.ops {
		last[o.Row] = max(last[o.Row], o.Call)
		if o.Kind == opRelease && o.Unreached {
			owners[o.Owner] = true
		}
	}
	return owners, last
}

// late requires that what a killed worker held goes to whoever asks for it
// within the bound, give or take the time in which others were stopped: they
// may have been first in the queue, or in the middle of a commit.
func (c *checker) late(key string, grants []*op) {
	released := map[int64]bool{}
	for _, o := range c.ops {
		if o.Kind == opRelease && o.Result != isUnknown && o.Result != isDenied && slices.Contains(o.Keys, key) {
			released[o.token(key)] = true
		}
	}
	for i, g := range grants {
		at, dead := c.killed[g.Row]
		if !dead || released[g.token(key)] {
			continue
		}
		c.r.KilledHolders++
		bound := g.TTL + c.Late
		if i+1 < len(grants) && grants[i+1].Took[key].Owner == g.Owner {
			next := grants[i+1]
			from := max(at, next.Call)
			if wait := time.Duration(next.Return-from) - c.paused(from, next.Return); wait > bound {
				c.fail("late", key, "killed worker %d was in the way for %v", g.Row, wait)
			}
		}
		for _, o := range c.ops {
			if o.Result == isHeld && o.Holder == g.Owner && time.Duration(o.Call-at)-c.paused(at, o.Call) > bound {
				c.fail("late", key, "worker %d hears %v after its death that worker %d holds the key", o.Row, time.Duration(o.Call-at), g.Row)
				break
			}
		}
	}
}

// paused is for how long, between two moments, some worker was stopped.
func (c *checker) paused(from, to int64) (sum time.Duration) {
	for _, p := range c.pauses {
		sum += time.Duration(max(0, min(to, p.to)-max(from, p.from)))
	}
	return sum
}
