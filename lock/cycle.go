package lock

import (
	"context"
	"slices"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// maxCircle bounds how many tickets one search looks at.
const maxCircle = 256

// circle looks for a circle of waiters through this request's ticket. It runs
// after the ticket has joined: looking before would let two join at once, each
// without seeing the other. Only the youngest of the circle gets the error.
func (r *AcquireRequest) circle(ctx context.Context, st *store.Store) error {
	var found *CycleError
	err := st.View(ctx, driver.Query{Keys: r.needs()}, func(tx *store.Tx) error {
		s := search{tx: tx, me: r.lease(), owner: r.Owner, seen: map[string]bool{}}
		var err error
		found, err = s.run()
		return err
	})
	if err == nil && found != nil {
		return found
	}
	return err
}

// search walks from ticket to ticket: from a waiter to the owners of what it
// waits for, and to their own tickets; and to the batches ahead of it in a
// queue. A single-key ticket ahead is not followed: it waits for nothing that
// the caller does not wait for itself.
type search struct {
	tx    *store.Tx
	me    string // lease name
	owner string
	seen  map[string]bool
}

// step is a ticket on the way, with how it was reached.
type step struct {
	ticket store.Entry[leaseRecord]
	key    string // for which the previous one waits
	prev   *step
}

func (s *search) run() (*CycleError, error) {
	me, err := getLease(s.tx, s.me)
	if err != nil || !me.Exists() {
		return nil, err
	}
	s.seen[s.me] = true
	for todo := []*step{{ticket: me}}; len(todo) > 0 && len(s.seen) < maxCircle; todo = todo[1:] {
		next, closing, err := s.edges(todo[0])
		if err != nil {
			return nil, err
		}
		if closing != "" {
			if e := s.name(todo[0], closing); e != nil {
				return e, nil
			}
			continue // someone younger will leave
		}
		todo = append(todo, next...)
	}
	return nil, nil
}

// edges returns the tickets that at waits for. closing is the key by which it
// waits for the caller itself.
func (s *search) edges(at *step) (next []*step, closing string, err error) {
	self := at.prev == nil
	for _, key := range at.ticket.Value.WaitsFor {
		lk, err := getLock(s.tx, key)
		if err != nil {
			return nil, "", err
		}
		if lk.Exists() && !self && usable(lk.Value.Owner, s.owner) {
			return nil, key, nil
		}
		if lk.Exists() && !usable(lk.Value.Owner, leaseOwner(at.ticket.Key[len(leaseKind):])) {
			found, err := s.ticketsOf(lk.Value.Owner)
			if err != nil {
				return nil, "", err
			}
			for _, t := range found {
				next = append(next, &step{ticket: t, key: key, prev: at})
			}
		}
		ahead, mine, err := s.batchesAhead(key, at)
		if err != nil {
			return nil, "", err
		}
		if mine && !self {
			return nil, key, nil
		}
		next = append(next, ahead...)
	}
	return next, "", nil
}

// ticketsOf returns the live tickets of an owner and its children: while one
// of them waits, the owner is taken to wait.
func (s *search) ticketsOf(owner string) ([]store.Entry[leaseRecord], error) {
	recs, err := s.tx.Scan(leaseKind+owner+"/", 0)
	if err != nil {
		return nil, err
	}
	var out []store.Entry[leaseRecord]
	for _, rec := range recs {
		t, err := store.Decode[leaseRecord](s.tx, rec)
		if err != nil {
			return nil, err
		}
		if len(t.Value.WaitsFor) > 0 && s.fresh(t) {
			out = append(out, t)
		}
	}
	return out, nil
}

// batchesAhead returns the batch tickets before at in a queue, and whether the
// caller's own ticket is among those before it.
func (s *search) batchesAhead(key string, at *step) (out []*step, mine bool, err error) {
	q, err := getQueue(s.tx, key)
	if err != nil {
		return nil, false, err
	}
	place := slices.Index(q.Value.Tickets, at.ticket.Key[len(leaseKind):])
	if place < 0 {
		return nil, false, nil
	}
	for _, name := range q.Value.Tickets[:place] {
		if name == s.me {
			return nil, true, nil
		}
		if !slices.Contains(q.Value.Batches, name) {
			continue
		}
		t, err := getLease(s.tx, name)
		if err != nil {
			return nil, false, err
		}
		if len(t.Value.WaitsFor) > 0 && s.fresh(t) {
			out = append(out, &step{ticket: t, key: key, prev: at})
		}
	}
	return out, false, nil
}

// fresh reports whether a live ticket was not looked at before.
func (s *search) fresh(t store.Entry[leaseRecord]) bool {
	name := t.Key[len(leaseKind):]
	if s.seen[name] || stateOf(t) != Held {
		return false
	}
	s.seen[name] = true
	return true
}

// name turns the way back into an error, if the caller is the youngest on it.
func (s *search) name(last *step, closing string) *CycleError {
	var steps []*step
	for at := last; at != nil; at = at.prev {
		steps = append([]*step{at}, steps...)
	}
	var e CycleError
	for i, at := range steps {
		if i > 0 && younger(at.ticket, steps[0].ticket) {
			return nil
		}
		key := closing
		if i+1 < len(steps) {
			key = steps[i+1].key
		}
		e.Chain = append(e.Chain, CycleLink{Owner: at.ticket.Value.Owner, Key: key})
	}
	return &e
}

func younger(a, b store.Entry[leaseRecord]) bool {
	if !a.Value.Since.Equal(b.Value.Since) {
		return a.Value.Since.After(b.Value.Since)
	}
	return a.Key > b.Key
}
