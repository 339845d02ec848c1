package lease

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// blockedByHolder describes a live holder. The first in the queue waits on the
// lock and its lease; every other waiter waits on the ticket before it, so that
// one release does not wake a thousand.
func (a *acquisition) blockedByHolder(tx *store.Tx, key string, lk store.Entry[lockRecord], ls store.Entry[leaseRecord]) (*blocker, error) {
	b := heldBy(key, lk, ls)
	a.near, a.actors = append(a.near, ls.Key), append(a.actors, ls.Value.actor())
	t, err := a.ticketAhead(tx, key, &b.held)
	if err == nil && t != nil {
		b.waitOn(*t)
	}
	return b, err
}

// heldBy describes a live holder.
func heldBy(key string, lk store.Entry[lockRecord], ls store.Entry[leaseRecord]) *blocker {
	l := ls.Value
	b := &blocker{
		held:   HeldError{Info: newInfo(lk, ls, queueRecord{}), Asked: key},
		guards: []driver.Guard{{Key: lk.Key, Rev: lk.Rev}, {Key: ls.Key, Rev: ls.Rev}},
		lease:  l,
		ends:   l.ttl() - ls.Age,
	}
	if l.kept { // nobody reports when the last of its users dies
		b.ends = min(b.ends, time.Second)
	}
	return b
}

// blockedByTicket describes an older waiter for a key that nobody holds.
func (a *acquisition) blockedByTicket(tx *store.Tx, key string) (*blocker, error) {
	b := &blocker{held: HeldError{Info: Info{Key: key}, Asked: key}}
	t, err := a.ticketAhead(tx, key, &b.held)
	switch {
	case err != nil || t == nil && !a.unseen:
		return nil, err
	case t != nil:
		b.held.HeartbeatAt = t.Time.UTC()
		b.waitOn(*t)
	}
	return b, nil
}

func (b *blocker) waitOn(t store.Entry[leaseRecord]) {
	b.guards = []driver.Guard{{Key: t.Key, Rev: t.Rev}}
	b.lease = t.Value
	b.ends = t.Value.ttl() - t.Age
	b.queued = true
}

// stillBehind reports whether tickets ahead are the only blockers, and all still wait
// for nothing else than the caller. It waits on them as they are now.
func (a *acquisition) stillBehind(ctx context.Context, st *store.Store) bool {
	var ahead []string
	for _, b := range a.blockers {
		if !b.queued || b.lease.mayBePassed() {
			return false
		}
		ahead = append(ahead, b.guards[0].Key)
	}
	still := false
	err := st.View(ctx, driver.Query{Keys: ahead}, func(tx *store.Tx) error {
		still = true
		for i := range a.blockers {
			t, err := peekLease(tx, leaseName(ahead[i]))
			if err != nil {
				return err
			}
			if stateOf(t) != Held || !slices.Equal(t.Value.WaitsFor, a.blockers[i].lease.WaitsFor) {
				still = false
				continue
			}
			a.blockers[i].waitOn(t)
		}
		return nil
	})
	return err == nil && still
}

// ticketAhead returns the nearest live ticket before the caller's place in the
// queue of key, or nil. It passes lapsed tickets, and a ticket that also waits for
// a key of the caller: that one could never be served first.
//
// Who is not in the queue yet joins first, and looks when it has a place: the end
// of the queue moves with each newcomer, what is before a place does not. Who does
// not wait looks from the front, which moves only when someone is served.
func (a *acquisition) ticketAhead(tx *store.Tx, key string, held *HeldError) (*store.Entry[leaseRecord], error) {
	q, err := a.queue(tx, key)
	if err != nil {
		return nil, err
	}
	tickets := q.Value.Tickets
	place, err := a.place(tx, tickets)
	if err != nil {
		return nil, err
	}
	held.Waiters = q.Value.live()
	held.Ahead = held.Waiters
	if place >= 0 {
		held.Ahead = q.Value.liveBefore(place)
		held.Position = held.Ahead + 1
		tickets = slices.Clone(tickets[:place])
		slices.Reverse(tickets)
	} else if a.wait > 0 && len(tickets) > 0 {
		if !q.Value.full() {
			a.unseen = true
			return nil, nil
		}
		tickets = slices.Clone(tickets) // those who joined last and are absent make room for it
		slices.Reverse(tickets)
	}
	t, err := a.firstInWay(tx, key, tickets)
	if t != nil || err != nil {
		return t, err
	}
	around, err := ticketsFor(tx, key, a.req.Owner, a.lease())
	if err != nil || len(around) == 0 {
		return nil, err
	}
	held.Ahead += len(around)
	return &around[len(around)-1], nil
}

// queue reads the queue of a key, and decodes it once: it may be long. Nobody changes
// what it returns.
func (a *acquisition) queue(tx *store.Tx, key string) (store.Entry[queueRecord], error) {
	if q := a.queues[key]; q.Exists() {
		if rev, err := tx.RevOf(q.Key); err == nil && rev == q.Rev {
			return q, nil
		}
	}
	q, err := getQueue(tx, key)
	if err == nil && q.Rev != store.Pending {
		a.queues[key] = q
	}
	return q, err
}

// firstInWay returns the first of the tickets that the caller cannot pass, or nil.
// It reads more at a time if it must pass many.
func (a *acquisition) firstInWay(tx *store.Tx, key string, tickets []string) (*store.Entry[leaseRecord], error) {
	for n := 1; len(tickets) > 0; n = max(8, 2*n) {
		some := tickets[:min(n, len(tickets))]
		tickets = tickets[len(some):]
		if err := tx.Want(leaseKeys(some)...); err != nil {
			return nil, err
		}
		for _, name := range some {
			t, err := passable(tx, name, key)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(t.Value.WaitsFor, key) || stateOf(t) != Held {
				if a.lapsed[name] = (time.Time{}); t.Exists() { // else it left, and will not come back
					a.lapsed[name] = tx.Now().Add(-max(0, t.Age-t.Value.ttl())).UTC()
				}
				continue
			}
			if over, err := overtakes(tx, a.req.Owner, t.Value); err != nil || !over {
				a.near = append(a.near, t.Key)
				return &t, err
			}
		}
	}
	return nil, nil
}

// passable reads a ticket ahead. It guards a ticket that is passed, so that it does
// not come back meanwhile, if there is room: otherwise that waiter may lose a turn,
// but no lock.
func passable(tx *store.Tx, name, key string) (store.Entry[leaseRecord], error) {
	t, err := peekLease(tx, name)
	if err == nil && (!slices.Contains(t.Value.WaitsFor, key) || stateOf(t) != Held) && roomToDrop(tx) {
		return getLease(tx, name)
	}
	return t, err
}

// place returns the request's place in a queue, or -1. A repeated call continues
// the ticket that the earlier one left behind. It does not touch a ticket that
// another call still waits with, even of the same owner. Who stays keeps its place,
// also if it asks for other keys of the queue's pool now.
func (a *acquisition) place(tx *store.Tx, tickets []string) (int, error) {
	if i := slices.Index(tickets, a.lease()); i >= 0 || a.requested() || a.queued {
		return i, nil
	}
	const most = 4 // an owner that waits more often than that has no lost place to find
	mine := slices.DeleteFunc(slices.Clone(tickets), func(t string) bool { return leaseOwner(t) != a.req.Owner })
	mine = mine[:min(len(mine), most)]
	if err := tx.Want(leaseKeys(mine)...); err != nil {
		return -1, err
	}
	for _, name := range mine {
		t, err := peekLease(tx, name)
		if err != nil {
			return -1, err
		}
		others := Without(t.Value.WaitsFor, a.keys)
		if !a.theirs(t.Value) || (t.Value.PID == 0 || stateOf(t) != Held) && len(others) == 0 {
			a.id, a.past = name[len(a.req.Owner)+1:], append(a.past, Without(others, a.past)...)
			return slices.Index(tickets, name), nil
		}
	}
	return -1, nil
}

func leaseKeys(names []string) []string {
	return Prefixed(leaseKind, names)
}

// overtakes reports whether owner need not wait behind the ticket: it has one of
// the keys that the ticket waits for, so the ticket could never be first.
func overtakes(tx *store.Tx, owner string, t leaseRecord) (bool, error) {
	if !t.mayBePassed() {
		return false, nil
	}
	if err := tx.Want(needWaited(t)...); err != nil {
		return false, err
	}
	for _, k := range t.WaitsFor {
		if isPool(k) {
			if over, err := passesTicket(tx, owner, k, t.Takes.of(k)); err != nil || over {
				return over, err
			}
			continue
		}
		lk, err := peekLock(tx, k)
		if err != nil {
			return false, err
		}
		around, err := overlapping(tx, k)
		if err != nil {
			return false, err
		}
		for _, lk := range append(around, lk) {
			if !lk.Exists() || !MayUse(owner, lk.Value.Owner) {
				continue
			}
			if roomToDrop(tx) { // the key must not be lost meanwhile
				_, err = getLock(tx, lk.Value.Key)
			}
			return true, err
		}
	}
	return false, nil
}

// needWaited names the records that show who has what a ticket waits for.
func needWaited(t leaseRecord) (keys []string) {
	for _, k := range t.WaitsFor {
		if isPool(k) {
			keys = append(keys, needPool(k)...)
		} else {
			keys = append(keys, recordOf(k))
		}
	}
	return keys
}

// mayBePassed reports whether a ticket waits for more than the one key of its queue.
func (l leaseRecord) mayBePassed() bool {
	return len(l.WaitsFor) > 1 || slices.ContainsFunc(l.WaitsFor, isPath) || slices.ContainsFunc(l.WaitsFor, isPool)
}

// join puts the request's ticket at the end of the queues of all keys that it does
// not hold, in one commit, and says whether its heartbeat is due. The ticket ends with a process.
// A batch queues for its free keys too; otherwise it would starve.
func (a *acquisition) join(tx *store.Tx, p host.Process) error {
	name := a.lease()
	own, err := getLease(tx, name)
	if err != nil {
		return err
	}
	if err := leaveQueues(tx, name, Without(own.Value.WaitsFor, a.keys), nil); err != nil { // it asks for other keys now
		return err
	}
	l := a.record(p)
	joined := false
	l.WaitsFor, l.Auto = slices.Concat(a.wanted, a.busy), Without(a.busy, a.asked)
	for _, key := range a.wanted {
		l.Takes = l.Takes.with(key, a.takes(key))
		place, wrote, err := a.joinQueue(tx, key)
		if err != nil {
			return err
		}
		joined = joined || wrote
		for i := range a.blockers {
			if h := &a.blockers[i].held; h.Asked == key {
				if h.Position = place; isPath(key) { // others wait for paths that overlap it
					h.Position = max(place, h.Ahead+1)
				}
			}
		}
	}
	if !joined && own.Exists() && own.Value.Process == p && !a.theirs(own.Value) && slices.Equal(own.Value.WaitsFor, l.WaitsFor) && maps.Equal(own.Value.Takes, l.Takes) {
		a.due = own.Age >= a.ticketTTL/3
		return nil
	}
	l.TTL, l.MaxHold, l.Since = a.ticketTTL.Seconds(), 0, tx.Now().UTC()
	if own.Exists() {
		l.Since = own.Value.Since
	}
	return putLease(tx, name, l, 0)
}

// beat renews the ticket. It is a commit of its own: one that depended on what the
// last look has read would fail whenever someone joins the queue.
func (a *acquisition) beat(ctx context.Context, st *store.Store) error {
	name := a.lease()
	_, err := Update(ctx, st, driver.Query{Keys: leaseKeys([]string{name})}, func(tx *store.Tx) error {
		own, err := getLease(tx, name)
		if err != nil || !own.Value.ticket() || a.theirs(own.Value) {
			return err
		}
		return putLease(tx, name, own.Value, 0)
	})
	return err
}

// joinQueue adds the ticket to one queue and returns its place there.
func (a *acquisition) joinQueue(tx *store.Tx, key string) (place int, wrote bool, err error) {
	q, err := a.queue(tx, key)
	if err != nil {
		return 0, false, err
	}
	name, rec := a.lease(), q.Value
	i := slices.Index(rec.Tickets, name)
	known := len(a.keys) == 1 && a.takes(key) == 1 || slices.Contains(rec.Batches, name)
	if _, lapsed := rec.Lapsed[name]; i >= 0 && !lapsed && known && !rec.sweeps(tx.Now(), a.lapsed) {
		return rec.liveBefore(i) + 1, false, nil
	}
	if rec, err = rec.sweep(tx, key, a.lapsed); err != nil {
		return 0, false, err
	}
	if i = slices.Index(rec.Tickets, name); i < 0 {
		if i = len(rec.Tickets); rec.full() {
			return 0, false, fmt.Errorf("%w: %d wait for %s already", ErrQueueFull, i, key)
		}
		a.near = append(a.near, leaseKeys(rec.Tickets[max(0, i-1):])...)
		rec.Tickets = append(rec.Tickets, name)
	}
	if !known {
		rec.Batches = append(rec.Batches, name)
	}
	delete(rec.Lapsed, name)
	return rec.liveBefore(i) + 1, true, rec.put(tx, key)
}

// leaveQueues takes the ticket out of the queues of all keys that the call waited
// for, and tidies them. The ticket's record becomes the lease, or the caller
// deletes it.
func (a *acquisition) leaveQueues(tx *store.Tx, lapsed lapses) error {
	return leaveQueues(tx, a.lease(), append(slices.Clip(a.keys), Without(a.past, a.keys)...), lapsed)
}

func leaveQueues(tx *store.Tx, ticket string, keys []string, lapsed lapses) error {
	for _, key := range keys {
		q, err := getQueue(tx, key)
		if err != nil {
			return err
		}
		if !slices.Contains(q.Value.Tickets, ticket) && !q.Value.sweeps(tx.Now(), lapsed) {
			continue
		}
		rec, err := q.Value.sweep(tx, key, lapsed)
		if err != nil {
			return err
		}
		rec.remove(ticket)
		if err := rec.put(tx, key); err != nil {
			return err
		}
	}
	return nil
}

// LeaveQueue takes the ticket of an owner out of the queue of a key, and out of the
// others that it is in. It leaves what the ticket was granted meanwhile.
func LeaveQueue(ctx context.Context, st *store.Store, key, owner string) error {
	_, err := Update(ctx, st, driver.Query{Keys: []string{queueKind + key}}, func(tx *store.Tx) error {
		q, err := getQueue(tx, key)
		if err != nil {
			return err
		}
		for _, name := range q.Value.Tickets {
			if leaseOwner(name) == owner {
				if err := dropTicket(tx, name, ""); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return err
}

// roomToDrop reports whether there is room for guards that serve only fairness and
// tidiness, besides those of the keys.
func roomToDrop(tx *store.Tx) bool { return tx.Room() > 1+2*MaxKeys }

// dropTicket deletes a waiter that never came back from all its queues but that of
// key, which the caller writes. That queue is guard enough: while the ticket is in
// it, it holds nothing.
func dropTicket(tx *store.Tx, name, key string) error {
	get := getLease
	if key != "" {
		get = peekLease
	}
	t, err := get(tx, name)
	if err != nil || !t.Value.ticket() || key != "" && !slices.Contains(t.Value.WaitsFor, key) {
		return err // it waits for other keys now
	}
	tx.Delete(t.Key)
	return leaveQueues(tx, name, Without(t.Value.WaitsFor, []string{key}), nil)
}
