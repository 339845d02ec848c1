package lease

import (
	"slices"

	"github.com/tasklock/tasklock/store"
)

// Who waits for a key waits for everybody in its way, so a cycle of waiters never
// ends. Who waits for slots of a pool needs only some of those in its way to end: a
// cycle through one of several holders is not a deadlock. So if a pool is part of a
// cycle, the search asks which tickets can ever be served, if all who do not wait
// end their work: the others are doomed, and only a cycle of doomed tickets counts.

// poolWays is what keeps a ticket from a pool.
type poolWays struct {
	held  [][]leaseRecord // for each slot in its way, the leases that keep it
	spare int             // how many of these slots may stay so for ever
}

// poolWays looks at all slots of a pool for a ticket.
func (s *search) poolWays(t store.Entry[leaseRecord], key string) (w poolWays, err error) {
	if err := s.tx.Want(needPool(key)...); err != nil {
		return w, err
	}
	rec, err := getPool(s.tx, key)
	if err != nil {
		return w, err
	}
	locks, err := getLocks(s.tx, slotKeys(key))
	if err != nil {
		return w, err
	}
	if err := wantHolders(s.tx, locks); err != nil {
		return w, err
	}
	if take := t.Value.Takes.of(key); take != TakeAll {
		w.spare = rec.Value.Size - take
	}
	for i, lk := range locks {
		held, err := s.inForce(t, slotKey(key, i), lk)
		if err != nil {
			return w, err
		}
		if len(held) > 0 {
			w.held = append(w.held, held)
			if i == allSlots {
				w.spare = 0
			}
		}
	}
	return w, nil
}

// certain reports whether a cycle that the search has found is a deadlock.
func (s *search) certain(last *step, e *DeadlockError) (bool, error) {
	if !slices.ContainsFunc(e.Chain, func(l DeadlockLink) bool { return isPool(l.Key) }) {
		return true, nil
	}
	if s.doomed == nil {
		waits, err := s.waits(last)
		if err != nil {
			return false, err
		}
		s.doomed = doomed(waits)
	}
	for at := last; at != nil; at = at.prev {
		if !s.doomed[leaseName(at.ticket.Key)] {
			return false, nil
		}
	}
	return true, nil
}

// waitsFor is all that one ticket waits for.
type waitsFor struct {
	actor, above string // as in search
	keys         []waitsForKey
}

// waitsForKey: it never gets the key if more than spare of the ways, or one of the
// tickets ahead, never end.
type waitsForKey struct {
	ways  [][]leaseRecord
	spare int
	ahead []string
}

// waits looks at the ticket at the beginning of the way, and at all tickets that it
// waits for, directly or not.
func (s *search) waits(last *step) (map[string]*waitsFor, error) {
	for last.prev != nil {
		last = last.prev
	}
	out := map[string]*waitsFor{}
	for todo := []store.Entry[leaseRecord]{last.ticket}; len(todo) > 0 && len(out) < maxSearch; {
		t := todo[0]
		todo = todo[1:]
		if out[leaseName(t.Key)] != nil {
			continue
		}
		w, next, err := s.waitsOf(t)
		if err != nil {
			return nil, err
		}
		out[leaseName(t.Key)], todo = w, append(todo, next...)
	}
	return out, nil
}

// waitsOf looks at one ticket, and returns those that it depends on.
func (s *search) waitsOf(t store.Entry[leaseRecord]) (w *waitsFor, next []store.Entry[leaseRecord], err error) {
	w = &waitsFor{actor: t.Value.actor()}
	for _, key := range t.Value.WaitsFor {
		k := waitsForKey{}
		if isPool(key) {
			ways, err := s.poolWays(t, key)
			if err != nil {
				return nil, nil, err
			}
			k.ways, k.spare = ways.held, ways.spare
		} else {
			held, err := s.inWay(t, key)
			if err != nil {
				return nil, nil, err
			}
			for _, l := range held {
				k.ways = append(k.ways, []leaseRecord{l})
			}
		}
		for _, l := range slices.Concat(k.ways...) {
			if a := l.actor(); descends(w.actor, a) && len(a) > len(w.above) {
				w.above = a
			}
			found, err := s.ticketsOf(l.actor())
			if err != nil {
				return nil, nil, err
			}
			next = append(next, found...)
		}
		ahead, err := s.ahead(t, key, func(string) bool { return false })
		if err != nil {
			return nil, nil, err
		}
		for _, a := range ahead {
			if a.Value.ticket() && stateOf(a) == Held {
				k.ahead, next = append(k.ahead, leaseName(a.Key)), append(next, a)
			}
		}
		w.keys = append(w.keys, k)
	}
	return w, next, nil
}

// doomed returns the tickets that are never served, if whoever does not wait ends.
func doomed(waits map[string]*waitsFor) map[string]bool {
	out := map[string]bool{}
	for name := range waits {
		out[name] = true
	}
	standsStill := func(l leaseRecord) bool {
		for name := range out {
			if w := waits[name]; holdsUp(w.actor, w.above, l.actor()) {
				return true
			}
		}
		return false
	}
	never := func(k waitsForKey) bool {
		stuck := 0
		for _, way := range k.ways {
			if slices.ContainsFunc(way, standsStill) {
				stuck++
			}
		}
		return stuck > k.spare || slices.ContainsFunc(k.ahead, func(name string) bool { return out[name] })
	}
	for more := true; more; {
		more = false
		for name := range out {
			if !slices.ContainsFunc(waits[name].keys, never) {
				delete(out, name)
				more = true
			}
		}
	}
	return out
}
