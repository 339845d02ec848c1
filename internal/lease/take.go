package lease

import (
	"slices"
	"time"

	"github.com/tasklock/tasklock/store"
)

// victim is a lease that a grant replaces, found by one of its keys.
type victim struct {
	lease, key, owner string
	why               State
}

func (v victim) takenOver() TakenOver { return TakenOver{Key: v.key, Owner: v.owner, Why: v.why} }

// take grants all keys of the request, or finds what blocks each. With any blocker
// there is no grant, and nothing is written.
func (a *acquisition) take(tx *store.Tx) (*Grant, error) {
	if err := a.begin(tx); err != nil {
		return nil, err
	}
	repeated, err := a.grantedBefore(tx)
	if err != nil {
		return nil, err
	}
	g := &Grant{LeaseID: a.lease(), Owner: a.req.Owner, AcquiredAt: tx.Now().UTC(), TookOver: []TakenOver{}}
	for _, key := range a.keys {
		take := a.takeKey
		if isPool(key) {
			take = a.takeSlots
		}
		if err := take(tx, g, key, repeated); err != nil {
			return nil, err
		}
	}
	if len(a.blockers) > 0 {
		return nil, nil
	}
	g.TookOver = append(g.TookOver, a.tidied...)
	for _, v := range a.victims {
		g.TookOver = append(g.TookOver, v.takenOver())
	}
	if a.waited, err = a.queuedFor(tx); err != nil {
		return nil, err
	}
	if err := a.takeOver(tx); err != nil {
		return nil, err
	}
	if guardPaths(tx, a.taken); a.user {
		guardPaths(tx, a.asked)
	}
	for _, k := range g.Keys {
		if lk, err := getLock(tx, k.Key); err != nil || k.Token != store.Pending && lk.Rev != k.Token { // it was kept for one of those
			again, err := a.take(tx)
			if again != nil {
				again.TookOver = g.TookOver
			}
			return again, err
		}
	}
	return g, a.write(tx, g)
}

// begin forgets the previous run, settles the keys and the id of this run, and
// reads what it needs.
func (a *acquisition) begin(tx *store.Tx) error {
	queued, err := a.keepsTicket(tx)
	if err != nil {
		return err
	}
	id := a.fresh
	if queued {
		id, a.past = a.joined, append(a.past, Without(a.keys, a.past)...)
	}
	// The keys stay until they are settled anew: whoever gives up in between leaves their queues.
	a.attempt = attempt{id: id, queued: queued, asked: a.asked, keys: a.keys, lapsed: lapses{}, queues: map[string]store.Entry[queueRecord]{}}
	if err := a.resolve(tx); err != nil {
		return err
	}
	if err := a.addOuterKeys(tx); err != nil {
		return err
	}
	if err := tx.Want(a.needs()...); err != nil {
		return err
	}
	locks, err := getLocks(tx, slices.DeleteFunc(slices.Clone(a.keys), isPool))
	if err != nil {
		return err
	}
	return wantHolders(tx, locks)
}

// keepsTicket reports whether this run continues the ticket that the call has in
// the queues. Another call takes it over when this one was silent for too long;
// then this one begins again.
func (a *acquisition) keepsTicket(tx *store.Tx) (bool, error) {
	if a.joined == "" || a.requested() {
		return a.joined != "", nil
	}
	own, err := getLease(tx, a.req.Owner+"/"+a.joined)
	return !own.Exists() || !a.theirs(own.Value), err
}

// queuedFor is how many seconds the ticket that becomes the lease was in the queue.
func (a *acquisition) queuedFor(tx *store.Tx) (float64, error) {
	if len(a.taken) == 0 {
		return 0, nil
	}
	own, err := getLease(tx, a.lease())
	if err != nil || !own.Value.ticket() {
		return 0, err
	}
	return max(0, tx.Now().Sub(own.Value.Since).Round(time.Millisecond).Seconds()), nil // the clocks of two writers may differ
}

// takeKey adds one key to the grant, or notes what blocks it.
func (a *acquisition) takeKey(tx *store.Tx, g *Grant, key string, repeated bool) error {
	lk, err := getLock(tx, key)
	if err != nil {
		return err
	}
	if lk.Exists() {
		ls, err := getLease(tx, lk.Value.Lease)
		if err != nil {
			return err
		}
		state := stateOf(ls)
		again, err := a.again(tx, lk, ls, state)
		if err != nil {
			return err
		}
		if again {
			return a.useAgain(tx, g, lk)
		}
		if state == Held && !repeated && !a.req.Force {
			b, err := a.blockedByHolder(tx, key, lk, ls)
			if err != nil {
				return err
			}
			a.blockers, a.wanted = append(a.blockers, *b), append(a.wanted, key)
			return nil
		}
		a.victims = append(a.victims, victim{lease: lk.Value.Lease, key: key, owner: lk.Value.Owner, why: endsFor(state)})
	}
	if repeated {
		return a.over(key, "not held any more")
	}
	return a.takeFree(tx, g, key)
}

// useAgain adds a key that the owner, or a parent, already holds.
func (a *acquisition) useAgain(tx *store.Tx, g *Grant, lk store.Entry[lockRecord]) error {
	key, lease := lk.Value.Key, lk.Value.Lease
	if a.used != nil && !slices.Contains(a.used, lease) {
		return a.over(key, "not held any more")
	}
	g.Keys = append(g.Keys, KeyGrant{Key: key, Name: a.names[key], Slot: max(slotOf(key), 0), Token: lk.Rev, Reentrant: lease != a.lease(), Lease: lease})
	if !slices.Contains(a.renewed, lease) {
		a.renewed = append(a.renewed, lease)
	}
	others, over, err := a.besides(tx, key, lk)
	if a.victims = append(a.victims, over...); len(others) > 0 {
		a.blockers, a.busy = append(a.blockers, others...), append(a.busy, key)
	}
	return err
}

// takeFree adds a key that nobody holds, unless an overlapping lock or an older
// waiter blocks it.
func (a *acquisition) takeFree(tx *store.Tx, g *Grant, key string) error {
	a.wanted = append(a.wanted, key)
	around, over, err := a.rivals(tx, key, true)
	if err != nil {
		return err
	}
	if a.victims = append(a.victims, over...); len(around) > 0 {
		a.blockers = append(a.blockers, around...)
		return nil
	}
	b, err := a.blockedByTicket(tx, key)
	if err != nil {
		return err
	}
	if b != nil && !a.req.Force {
		a.blockers = append(a.blockers, *b)
		return nil
	}
	a.taken = append(a.taken, key)
	g.Keys = append(g.Keys, KeyGrant{Key: key, Name: a.names[key], Token: store.Pending, Lease: a.lease()})
	return nil
}

// again reports whether the request uses a lock that its owner, or a parent,
// already has. A late renewal is allowed while the record is still our own; a lock
// that reached its max hold is free, even for its last owner.
func (a *acquisition) again(tx *store.Tx, lk store.Entry[lockRecord], ls store.Entry[leaseRecord], s State) (bool, error) {
	if !MayUse(a.req.Owner, lk.Value.Owner) || !ls.Exists() || s == Dead {
		return false, nil
	}
	held, err := heldFor(tx, ls.Value)
	return s == Held || ls.Value.window(held) > 0, err
}

// takeOver ends the leases that the grant replaces. If they are too many for its
// commit, some end before it: they are over in any case.
func (a *acquisition) takeOver(tx *store.Tx) error {
	victims := a.victims
	if err := wantLeases(tx, victimLeases(victims)); err != nil {
		return err
	}
	need, how := a.toWrite(), ending{event: "taken over", by: a.req.Owner, waited: a.waited}
	var over []victim // in any case
	for _, v := range victims {
		ls, err := peekLease(tx, v.lease)
		if err != nil {
			return err
		}
		if need += cost(ls.Value); v.why != Broken {
			over, how.why = append(over, v), string(v.why)
		}
	}
	if tx.Room() < need && len(over) == 0 && len(victims) > 0 {
		return tooMany(victims)
	}
	if tx.Room() < need && len(victims) > 0 {
		for _, v := range over {
			if over := v.takenOver(); !slices.Contains(a.tidied, over) {
				a.tidied = append(a.tidied, over)
			}
		}
		return &crowded{victims: over, how: how, still: isOver}
	}
	for _, v := range victims {
		if err := endVictim(tx, v, a.ending(v)); err != nil {
			return err
		}
	}
	return nil
}

// isOver is guarded by the lease: a renewal meanwhile saves it.
func isOver(tx *store.Tx, v victim) (bool, error) {
	ls, err := getLease(tx, v.lease)
	return stateOf(ls) != Held, err
}

// toWrite is the most guards that a grant takes after its decision.
func (a *acquisition) toWrite() int { return 2 + 2*len(a.outer) }
