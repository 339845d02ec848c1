package lock

import (
	"cmp"
	"context"
	"slices"

	"github.com/tasklock/tasklock/store"
)

// maxCircle bounds how many tickets one search looks at.
const maxCircle = 256

// circle looks for a circle of waiters through this request's ticket. It runs
// after the ticket has joined: looking before would let two join at once, each
// without seeing the other. Only the youngest of the circle gets the error.
func (r *AcquireRequest) circle(ctx context.Context, st *store.Store) error {
	var found *CycleError
	err := st.View(ctx, r.query(), func(tx *store.Tx) error {
		s := search{tx: tx, me: r.lease(), owner: r.Owner, seen: map[string]bool{}, queues: map[string]queueRecord{}}
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

	queues map[string]queueRecord // decoded once: they may be long
}

// step is a ticket on the way, with how it was reached.
type step struct {
	ticket store.Entry[leaseRecord]
	key    string // for which the previous one waits
	prev   *step
}

// run goes outwards one level at a time, so that what a level lacks is read
// at once.
func (s *search) run() (*CycleError, error) {
	me, err := getLease(s.tx, s.me)
	if err != nil || !me.Value.ticket() {
		return nil, err
	}
	s.seen[s.me] = true
	for level := []*step{{ticket: me}}; len(level) > 0 && len(s.seen) < maxCircle; {
		var next []*step
		var missing error
		for _, at := range level {
			for _, key := range at.ticket.Value.WaitsFor {
				ahead, closing, err := s.edges(at, key)
				missing = cmp.Or(missing, err)
				if closing && missing == nil {
					if e := s.name(at, key); e != nil {
						return e, nil
					}
				}
				next = append(next, ahead...) // someone younger will leave
			}
		}
		if missing != nil {
			return nil, missing
		}
		level = next
	}
	return nil, nil
}

// edges returns the tickets that at waits for because of key, and whether it
// waits for the caller itself.
func (s *search) edges(at *step, key string) (next []*step, closing bool, err error) {
	holders, closing, missing := s.held(at, key)
	if closing {
		return nil, true, missing
	}
	ahead, closing, err := s.batchesAhead(at, key)
	missing = cmp.Or(missing, err)
	if !closing {
		var more []store.Entry[leaseRecord]
		more, closing, err = s.pathsAhead(at, key)
		missing = cmp.Or(missing, err)
		ahead = append(ahead, more...)
	}
	for _, t := range append(holders, ahead...) {
		next = append(next, &step{ticket: t, key: key, prev: at})
	}
	return next, closing, missing
}

// pathsAhead returns the tickets for overlapping paths that at stands behind,
// and whether the caller's own is among them.
func (s *search) pathsAhead(at *step, key string) (out []store.Entry[leaseRecord], mine bool, err error) {
	ahead, err := ticketsFor(s.tx, key, at.ticket.Value.Owner, at.ticket.Key[len(leaseKind):])
	for _, t := range ahead {
		switch {
		case t.Key == leaseKind+s.me:
			return out, true, err
		case s.fresh(t):
			out = append(out, t)
		}
	}
	return out, false, err
}

// held returns the tickets of whoever holds the key.
func (s *search) held(at *step, key string) ([]store.Entry[leaseRecord], bool, error) {
	if err := s.tx.Want(needMeant([]string{key})...); err != nil {
		return nil, false, err
	}
	locks, err := rivalsOf(s.tx, key)
	if err != nil {
		return nil, false, err
	}
	lk, err := getLock(s.tx, key)
	if err != nil {
		return nil, false, err
	}
	locks = append(locks, lk)
	if err := wantHolders(s.tx, locks); err != nil {
		return nil, false, err
	}
	var out []store.Entry[leaseRecord]
	var missing error
	for _, lk := range locks {
		if !lk.Exists() || usable(lk.Value.Owner, at.ticket.Value.Owner) {
			continue
		}
		ls, err := getLease(s.tx, lk.Value.Lease)
		if err != nil {
			return nil, false, err
		}
		if stateOf(ls) != Held {
			continue
		}
		if at.prev != nil && usable(lk.Value.Owner, s.owner) {
			return nil, true, nil
		}
		found, err := s.ticketsOf(lk.Value.Owner)
		missing = cmp.Or(missing, err)
		out = append(out, found...)
	}
	return out, false, missing
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
		if s.fresh(t) {
			out = append(out, t)
		}
	}
	return out, nil
}

// batchesAhead returns the batch tickets before at in a queue that at cannot
// overtake, and whether the caller's own is among them.
func (s *search) batchesAhead(at *step, key string) (out []store.Entry[leaseRecord], mine bool, err error) {
	q, err := s.queue(key)
	if err != nil {
		return nil, false, err
	}
	place := slices.Index(q.Tickets, at.ticket.Key[len(leaseKind):])
	batches := slices.DeleteFunc(slices.Clone(q.Tickets[:max(place, 0)]), func(name string) bool {
		return s.seen[name] && name != s.me || !slices.Contains(q.Batches, name)
	})
	batches = batches[:min(len(batches), maxCircle)]
	if err := s.tx.Want(leaseKeys(batches)...); err != nil {
		return nil, false, err
	}
	var keys []string
	for _, name := range batches {
		t, err := getLease(s.tx, name)
		if err != nil {
			return nil, false, err
		}
		keys = append(keys, lockKeys(t.Value.WaitsFor)...)
	}
	if err := s.tx.Want(keys...); err != nil {
		return nil, false, err
	}
	for _, name := range batches {
		t, err := getLease(s.tx, name)
		if err != nil {
			return nil, false, err
		}
		over, err := overtakes(s.tx, at.ticket.Value.Owner, t.Value)
		if err != nil {
			return nil, false, err
		}
		switch {
		case over:
		case name == s.me:
			return out, true, nil
		case s.fresh(t):
			out = append(out, t)
		}
	}
	return out, false, nil
}

func (s *search) queue(key string) (queueRecord, error) {
	if q, ok := s.queues[key]; ok {
		return q, nil
	}
	q, err := getQueue(s.tx, key)
	if err == nil {
		s.queues[key] = q.Value
	}
	return q.Value, err
}

// fresh reports whether this is a live ticket that was not looked at before.
func (s *search) fresh(t store.Entry[leaseRecord]) bool {
	name := t.Key[len(leaseKind):]
	if !t.Value.ticket() || s.seen[name] || stateOf(t) != Held {
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
