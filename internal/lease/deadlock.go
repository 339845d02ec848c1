package lease

import (
	"cmp"
	"slices"

	"github.com/tasklock/tasklock/store"
)

// maxSearch bounds how many tickets one search looks at.
const maxSearch = 256

// deadlocked looks for a deadlock through this request's ticket. It runs after the
// ticket has joined: if it ran before, two could join at once without seeing each
// other. Only the youngest waiter of the deadlock gets the error.
func (a *acquisition) deadlocked(tx *store.Tx) error {
	s := search{tx: tx, me: a.lease(), seen: map[reached]bool{}, queue: a.queue}
	found, err := s.run()
	if err == nil && found != nil {
		return found
	}
	return err
}

// search walks from ticket to ticket: from a waiter to the actors under what it
// waits for, and to their own tickets; and to the batches ahead of it in a queue.
// It does not follow a single-key ticket ahead: that one waits for nothing that
// the caller does not wait for itself.
//
// The actor of a lease or ticket is the owner that works under it. While a ticket
// waits, its actor and the actor's parents stand still. But an actor may have
// holders that wait for each other, which shows that it does not stand still: a
// ticket that waits for a lease of such a parent blocks only those below it.
type search struct {
	tx    *store.Tx
	me    string // lease name
	actor string
	above string // the nearest parent of actor, or itself, that the caller waits for
	seen  map[reached]bool

	queue  reading[queueRecord]
	doomed map[string]bool // see stuck.go; nil: not known yet
}

// reached is a ticket and the actor through which it was found; none: it is ahead
// in a queue.
type reached struct{ name, through string }

// step is a ticket on the way, and how it was reached.
type step struct {
	ticket  store.Entry[leaseRecord]
	key     string // for which the previous one waits
	through string
	prev    *step
}

// run goes outwards one level at a time, so that it reads at once what a level
// needs.
func (s *search) run() (*DeadlockError, error) {
	me, err := getLease(s.tx, s.me)
	if err != nil || !me.Value.ticket() {
		return nil, err
	}
	s.actor = me.Value.actor()
	for level := []*step{{ticket: me}}; len(level) > 0 && len(s.seen) < maxSearch; {
		var next []*step
		var missing error
		for _, at := range level {
			ahead, found, err := s.expand(at)
			if missing = cmp.Or(missing, err); found != nil && missing == nil {
				return found, nil
			}
			next = append(next, ahead...) // a younger waiter will leave
		}
		if missing != nil {
			return nil, missing
		}
		level = next
	}
	return nil, nil
}

// expand returns the tickets that at waits for, or the deadlock that it closes.
func (s *search) expand(at *step) (next []*step, found *DeadlockError, missing error) {
	keys, above := at.ticket.Value.WaitsFor, ""
	held := make([][]leaseRecord, len(keys))
	for i, key := range keys {
		var err error
		held[i], err = s.inWay(at.ticket, key)
		missing = cmp.Or(missing, err)
		for _, l := range held[i] {
			if a := l.actor(); descends(at.ticket.Value.actor(), a) && len(a) > len(above) {
				above = a
			}
		}
	}
	if at.prev == nil {
		s.above = above
	}
	if missing == nil && at.through != "" && !holdsUp(at.ticket.Value.actor(), above, at.through) {
		return nil, nil, nil
	}
	for i, key := range keys {
		ahead, closing, err := s.edges(at, key, held[i])
		if missing = cmp.Or(missing, err); closing && missing == nil {
			e := s.name(at, key)
			if e == nil {
				continue
			}
			certain, err := s.certain(at, e)
			if missing = cmp.Or(missing, err); certain && missing == nil {
				return nil, e, nil
			}
		}
		next = append(next, ahead...)
	}
	return next, nil, missing
}

// holdsUp reports whether an actor that waits, perhaps for above, blocks the work
// of another: of itself or a parent, if they are below above.
func holdsUp(actor, above, other string) bool {
	return descends(actor, other) && (above == "" || !descends(above, other))
}

// edges returns the tickets that at waits for because these leases block a key,
// and whether it waits for the caller itself.
func (s *search) edges(at *step, key string, held []leaseRecord) (next []*step, closing bool, missing error) {
	for _, l := range held {
		if at.prev != nil && holdsUp(s.actor, s.above, l.actor()) {
			return nil, true, missing
		}
		found, err := s.ticketsOf(l.actor())
		missing = cmp.Or(missing, err)
		for _, t := range found {
			if s.fresh(t, l.actor()) {
				next = append(next, &step{ticket: t, key: key, through: l.actor(), prev: at})
			}
		}
	}
	ahead, err := s.ahead(at.ticket, key, func(name string) bool { return s.seen[reached{name: name}] })
	missing = cmp.Or(missing, err)
	for _, t := range ahead {
		switch {
		case t.Key == leaseKind+s.me:
			return next, true, missing
		case s.fresh(t, ""):
			next = append(next, &step{ticket: t, key: key, prev: at})
		}
	}
	return next, false, missing
}

// ahead returns the tickets that a ticket waits behind for a key: batches in the
// queue, and tickets for overlapping paths.
func (s *search) ahead(t store.Entry[leaseRecord], key string, known func(name string) bool) ([]store.Entry[leaseRecord], error) {
	batches, err := s.batchesAhead(t, key, known)
	if err != nil {
		return nil, err
	}
	paths, err := ticketsFor(s.tx, key, t.Value.Owner, leaseName(t.Key))
	return append(batches, paths...), err
}

// inWay returns the leases that keep a ticket from the key: that of its holder,
// or of others who work under what the ticket's owner may use.
func (s *search) inWay(t store.Entry[leaseRecord], key string) (out []leaseRecord, err error) {
	if isPool(key) {
		ways, err := s.poolWays(t, key)
		return slices.Concat(ways.held...), err
	}
	if err := s.tx.Want(needMeant([]string{key})...); err != nil {
		return nil, err
	}
	locks, err := rivalsOf(s.tx, key)
	if err != nil {
		return nil, err
	}
	lk, err := getLock(s.tx, key)
	if err != nil {
		return nil, err
	}
	locks = append(locks, lk)
	if err := wantHolders(s.tx, locks); err != nil {
		return nil, err
	}
	for _, lk := range locks {
		found, err := s.inForce(t, key, lk)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// inForce returns those of the keepers of a lock that are in force.
func (s *search) inForce(t store.Entry[leaseRecord], key string, lk store.Entry[lockRecord]) (out []leaseRecord, err error) {
	found, err := s.keepers(t, key, lk)
	for _, ls := range found {
		if stateOf(ls) == Held {
			out = append(out, ls.Value)
		}
	}
	return out, err
}

// keepers returns the leases that keep a ticket from one lock.
func (s *search) keepers(t store.Entry[leaseRecord], key string, lk store.Entry[lockRecord]) ([]store.Entry[leaseRecord], error) {
	exact := lk.Value.Key == key
	switch {
	case !lk.Exists():
		return nil, nil
	case !MayUse(t.Value.Owner, lk.Value.Owner):
		ls, err := getLease(s.tx, lk.Value.Lease)
		return []store.Entry[leaseRecord]{ls}, err
	case exact && !t.Value.Attached:
		return nil, nil
	}
	all := exact && !slices.Contains(t.Value.Auto, key)
	return workingUnder(s.tx, lk, all, t.Value.Owner, leaseName(t.Key))
}

// ticketsOf returns the live tickets of an actor and its children: while one of
// them waits, the actor counts as waiting.
func (s *search) ticketsOf(actor string) ([]store.Entry[leaseRecord], error) {
	recs, err := s.tx.Scan(leasesOfActor(actor), 0)
	if err != nil {
		return nil, err
	}
	var out []store.Entry[leaseRecord]
	for _, rec := range recs {
		t, err := store.Decode[leaseRecord](s.tx, rec)
		if err != nil {
			return nil, err
		}
		if t.Value.ticket() && descends(t.Value.actor(), actor) && stateOf(t) == Held {
			out = append(out, t)
		}
	}
	return out, nil
}

func leasesOfActor(actor string) string { return leaseKind + actor + "/" }

// batchesAhead returns the batch tickets before a ticket in a queue that it cannot
// overtake, except those that are known.
func (s *search) batchesAhead(t store.Entry[leaseRecord], key string, known func(name string) bool) (out []store.Entry[leaseRecord], err error) {
	e, err := s.queue(s.tx, key)
	if err != nil {
		return nil, err
	}
	q := e.Value
	place := slices.Index(q.Tickets, leaseName(t.Key))
	batches := slices.DeleteFunc(slices.Clone(q.Tickets[:max(place, 0)]), func(name string) bool {
		return known(name) || !slices.Contains(q.Batches, name)
	})
	batches = batches[:min(len(batches), maxSearch)]
	tickets, err := readLeases(s.tx, batches, getLease)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, b := range tickets {
		keys = append(keys, needWaited(b.Value)...)
	}
	if err := s.tx.Want(keys...); err != nil {
		return nil, err
	}
	for _, b := range tickets {
		over, err := overtakes(s.tx, t.Value.Owner, b.Value)
		if err != nil {
			return nil, err
		}
		if !over {
			out = append(out, b)
		}
	}
	return out, nil
}

// fresh reports whether this is another live ticket that was not found in the same
// way before.
func (s *search) fresh(t store.Entry[leaseRecord], through string) bool {
	r := reached{leaseName(t.Key), through}
	if !t.Value.ticket() || r.name == s.me || s.seen[r] || stateOf(t) != Held {
		return false
	}
	s.seen[r] = true
	return true
}

// name turns the way back into an error, if the caller is the youngest on it.
func (s *search) name(last *step, closing string) *DeadlockError {
	var steps []*step
	for at := last; at != nil; at = at.prev {
		steps = append([]*step{at}, steps...)
	}
	var e DeadlockError
	for i, at := range steps {
		if i > 0 && younger(at.ticket, steps[0].ticket) {
			return nil
		}
		key := closing
		if i+1 < len(steps) {
			key = steps[i+1].key
		}
		e.Chain = append(e.Chain, DeadlockLink{Owner: at.ticket.Value.Owner, Key: key})
	}
	return &e
}

func younger(a, b store.Entry[leaseRecord]) bool {
	if !a.Value.Since.Equal(b.Value.Since) {
		return a.Value.Since.After(b.Value.Since)
	}
	return a.Key > b.Key
}
