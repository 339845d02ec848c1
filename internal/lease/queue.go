package lease

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// maxQueue bounds the waiters of one key: the queue is one record.
const maxQueue = 1000

// blockedByHolder describes a live holder. Who is first in the queue waits on
// the lock and its lease; everyone else waits on the ticket before it, so that
// one release does not wake a thousand.
func (r *AcquireRequest) blockedByHolder(tx *store.Tx, key string, lk store.Entry[lockRecord], ls store.Entry[leaseRecord]) (*blocker, error) {
	b := heldBy(key, lk, ls)
	t, err := r.ticketAhead(tx, key, &b.held)
	if err == nil && t != nil {
		b.waitOn(*t)
	}
	return b, err
}

// heldBy describes a live holder.
func heldBy(key string, lk store.Entry[lockRecord], ls store.Entry[leaseRecord]) *blocker {
	l := ls.Value
	b := &blocker{
		held: HeldError{
			Key: lk.Value.Key, Asked: key, Owner: lk.Value.Owner, Lease: lk.Value.Lease, Token: lk.Rev,
			Since: lk.Value.Since, Until: endsAfter(ls.Time, l.ttl()).Time, LastSeen: ls.Time.UTC(),
			Host: l.Host, PID: l.PID, Reason: l.Reason, Worktree: l.Worktree,
		},
		guards: []driver.Guard{{Key: lk.Key, Rev: lk.Rev}, {Key: ls.Key, Rev: ls.Rev}},
		lease:  l,
		ends:   l.ttl() - ls.Age,
	}
	if l.kept { // nobody says when the last of its users dies
		b.ends = min(b.ends, time.Second)
	}
	return b
}

// blockedByTicket describes who waits longer for a key that nobody holds.
func (r *AcquireRequest) blockedByTicket(tx *store.Tx, key string) (*blocker, error) {
	b := &blocker{held: HeldError{Key: key, Asked: key}}
	t, err := r.ticketAhead(tx, key, &b.held)
	if err != nil || t == nil {
		return nil, err
	}
	b.held.LastSeen = t.Time.UTC()
	b.waitOn(*t)
	return b, nil
}

func (b *blocker) waitOn(t store.Entry[leaseRecord]) {
	b.guards = []driver.Guard{{Key: t.Key, Rev: t.Rev}}
	b.lease = t.Value
	b.ends = t.Value.ttl() - t.Age
	b.queued = true
}

// ticketAhead returns the nearest live ticket before the caller's place in
// the queue of key, or nil. Lapsed tickets are passed over; so is one whose
// waiter needs, besides, a key that the caller holds: it could never be
// served first.
func (r *AcquireRequest) ticketAhead(tx *store.Tx, key string, held *HeldError) (*store.Entry[leaseRecord], error) {
	q, err := getQueue(tx, key)
	if err != nil {
		return nil, err
	}
	tickets := q.Value.Tickets
	place, err := r.place(tx, tickets)
	if err != nil {
		return nil, err
	}
	if place >= 0 {
		held.Position = place + 1 - lapsedBefore(q.Value, place)
	} else {
		place = len(tickets)
	}
	held.Ahead = place - lapsedBefore(q.Value, place)
	for end, n := place, 8; end > 0; end, n = max(0, end-n), 2*n {
		chunk := tickets[max(0, end-n):end]
		if err := tx.Want(leaseKeys(chunk)...); err != nil {
			return nil, err
		}
		for _, name := range slices.Backward(chunk) {
			t, err := r.passable(tx, name, key)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(t.Value.WaitsFor, key) || stateOf(t) != Held {
				r.lapsed[name] = tx.Now().Add(-max(0, t.Age-t.Value.ttl())).UTC()
				continue
			}
			over, err := overtakes(tx, r.Owner, t.Value)
			if err != nil {
				return nil, err
			}
			if !over {
				return &t, nil
			}
		}
	}
	around, err := ticketsFor(tx, key, r.Owner, r.lease())
	if err != nil || len(around) == 0 {
		return nil, err
	}
	held.Ahead += len(around)
	return &around[len(around)-1], nil
}

// passable looks at a ticket ahead. One that is passed over is guarded, so that
// it does not come back meanwhile: as far as there is room, for it loses a turn
// then, and no lock.
func (r *AcquireRequest) passable(tx *store.Tx, name, key string) (store.Entry[leaseRecord], error) {
	t, err := peekLease(tx, name)
	if err == nil && (!slices.Contains(t.Value.WaitsFor, key) || stateOf(t) != Held) && roomToDrop(tx) {
		return getLease(tx, name)
	}
	return t, err
}

// place returns where the request stands in a queue, or -1. A call that was
// repeated goes on with the ticket that the earlier one left behind; one that
// someone still waits with is not touched, also if it is the same owner.
func (r *AcquireRequest) place(tx *store.Tx, tickets []string) (int, error) {
	if i := slices.Index(tickets, r.lease()); i >= 0 || r.requested || r.queued {
		return i, nil
	}
	if err := tx.Want(leaseKeys(slices.DeleteFunc(slices.Clone(tickets), func(t string) bool { return leaseOwner(t) != r.Owner }))...); err != nil {
		return -1, err
	}
	for i, name := range tickets {
		if leaseOwner(name) != r.Owner {
			continue
		}
		t, err := peekLease(tx, name)
		if err != nil {
			return -1, err
		}
		if (t.Value.PID == 0 || stateOf(t) != Held) && len(without(t.Value.WaitsFor, r.Keys)) == 0 {
			r.ID = name[len(r.Owner)+1:]
			return i, nil
		}
	}
	return -1, nil
}

func lapsedBefore(q queueRecord, place int) int {
	n := 0
	for _, t := range q.Tickets[:place] {
		if _, ok := q.Lapsed[t]; ok {
			n++
		}
	}
	return n
}

func leaseKeys(names []string) []string {
	return prefixed(leaseKind, names)
}

// overtakes reports whether owner need not wait behind the ticket: it has one
// of the keys that the ticket waits for, so the ticket could never be first.
func overtakes(tx *store.Tx, owner string, t leaseRecord) (bool, error) {
	if len(t.WaitsFor) < 2 && !slices.ContainsFunc(t.WaitsFor, isPath) {
		return false, nil // it waits for the very key the owner asks for
	}
	if err := tx.Want(lockKeys(t.WaitsFor)...); err != nil {
		return false, err
	}
	for _, k := range t.WaitsFor {
		lk, err := peekLock(tx, k)
		if err != nil {
			return false, err
		}
		around, err := overlapping(tx, k)
		if err != nil {
			return false, err
		}
		for _, lk := range append(around, lk) {
			if !lk.Exists() || !usable(lk.Value.Owner, owner) {
				continue
			}
			if roomToDrop(tx) { // it must not be lost meanwhile
				_, err = getLock(tx, lk.Value.Key)
			}
			return true, err
		}
	}
	return false, nil
}

// join puts the request's ticket at the end of the queues of all keys it does
// not hold, all in one commit, and is the ticket's heartbeat. A batch queues
// for its free keys too: else it would starve.
func (r *AcquireRequest) join(tx *store.Tx, blocked []blocker) error {
	name := r.lease()
	own, err := getLease(tx, name)
	if err != nil {
		return err
	}
	l := r.record()
	joined := false
	l.WaitsFor, l.Auto = slices.Concat(r.wanted, r.busy), without(r.busy, r.asked)
	for _, key := range r.wanted {
		place, wrote, err := r.joinQueue(tx, key)
		if err != nil {
			return err
		}
		joined = joined || wrote
		for i := range blocked {
			if h := &blocked[i].held; h.Asked == key {
				if h.Position = place; isPath(key) { // others wait for paths that overlap it
					h.Position = max(place, h.Ahead+1)
				}
			}
		}
	}
	if !joined && own.Exists() && own.Age < r.Times.Ticket/3 && own.Value.Process == r.Process && !r.theirs(own.Value) &&
		slices.Equal(own.Value.WaitsFor, l.WaitsFor) {
		return nil
	}
	l.TTL, l.MaxHold, l.Since = r.Times.Ticket.Seconds(), 0, tx.Now().UTC()
	if own.Exists() {
		l.Since = own.Value.Since
	}
	return putLease(tx, name, l, 0)
}

// joinQueue adds the ticket to one queue and returns its place there.
func (r *AcquireRequest) joinQueue(tx *store.Tx, key string) (place int, wrote bool, err error) {
	q, err := getQueue(tx, key)
	if err != nil {
		return 0, false, err
	}
	name, rec := r.lease(), q.Value
	i := slices.Index(rec.Tickets, name)
	known := len(r.Keys) == 1 || slices.Contains(rec.Batches, name)
	if _, lapsed := rec.Lapsed[name]; i >= 0 && !lapsed && known && !r.sweeps(tx, rec) {
		return i + 1 - lapsedBefore(rec, i), false, nil
	}
	if rec, err = r.sweep(tx, key, rec); err != nil {
		return 0, false, err
	}
	if i = slices.Index(rec.Tickets, name); i < 0 {
		if i = len(rec.Tickets); rec.full() {
			return 0, false, fmt.Errorf("%w: %d wait for %s already", ErrQueueFull, i, key)
		}
		rec.Tickets = append(rec.Tickets, name)
	}
	if !known {
		rec.Batches = append(rec.Batches, name)
	}
	delete(rec.Lapsed, name)
	return i + 1 - lapsedBefore(rec, i), true, rec.put(tx, key)
}

// leaveQueues takes the ticket out of the queues of the keys, and tidies them.
// The ticket's record itself becomes the lease, or is deleted by the caller.
func (r *AcquireRequest) leaveQueues(tx *store.Tx) error {
	for _, key := range append(slices.Clip(r.Keys), without(r.past, r.Keys)...) {
		q, err := getQueue(tx, key)
		if err != nil {
			return err
		}
		if !slices.Contains(q.Value.Tickets, r.lease()) && !r.sweeps(tx, q.Value) {
			continue
		}
		rec, err := r.sweep(tx, key, q.Value)
		if err != nil {
			return err
		}
		rec.remove(r.lease())
		if err := rec.put(tx, key); err != nil {
			return err
		}
	}
	return nil
}

// sweeps reports whether sweep would change the queue.
func (r *AcquireRequest) sweeps(tx *store.Tx, q queueRecord) bool {
	return slices.ContainsFunc(q.Tickets, func(t string) bool {
		_, found := r.lapsed[t]
		since, dated := q.Lapsed[t]
		return found && (!dated || tx.Now().Sub(since) > placeKept)
	})
}

// sweep returns a copy of the queue in which the tickets that this request
// found lapsed have a date, and are gone if that date is long past, or if the
// queue is too full to keep places for those who are not there.
func (r *AcquireRequest) sweep(tx *store.Tx, key string, q queueRecord) (queueRecord, error) {
	out := queueRecord{Lapsed: map[string]time.Time{}}
	for _, t := range q.Tickets {
		since, dated := q.Lapsed[t]
		if lapse, found := r.lapsed[t]; found {
			if !dated {
				since, dated = lapse, true
			}
			if tx.Now().Sub(since) > placeKept && (roomToDrop(tx) || !slices.Contains(q.Batches, t)) {
				if err := dropTicket(tx, t, key); err != nil {
					return out, err
				}
				continue
			}
		}
		out.Tickets = append(out.Tickets, t)
		if slices.Contains(q.Batches, t) {
			out.Batches = append(out.Batches, t)
		}
		if dated {
			out.Lapsed[t] = since
		}
	}
	if out.full() {
		for _, t := range slices.Sorted(maps.Keys(out.Lapsed)) { // what there is room for must be the same in each run
			if roomToDrop(tx) || !slices.Contains(out.Batches, t) { // else its record stays, without a place
				if err := dropTicket(tx, t, key); err != nil {
					return out, err
				}
			}
			out.remove(t)
		}
	}
	return out, nil
}

// roomToDrop reports whether there is room for guards that only fairness and
// tidiness ask for, beside those of the keys themselves.
func roomToDrop(tx *store.Tx) bool { return tx.Room() > 1+2*MaxKeys }

// dropTicket deletes a waiter that never came back, from all its queues but
// that of the key where the caller does it. That queue is guard enough: as long as
// the ticket stands there it holds nothing.
func dropTicket(tx *store.Tx, name, key string) error {
	get := getLease
	if key != "" {
		get = peekLease
	}
	t, err := get(tx, name)
	if err != nil || !t.Value.ticket() || key != "" && !slices.Contains(t.Value.WaitsFor, key) {
		return err // it waits elsewhere now
	}
	tx.Delete(t.Key)
	owner := leaseOwner(name)
	r := AcquireRequest{Owner: owner, ID: name[len(owner)+1:], Keys: without(t.Value.WaitsFor, []string{key})}
	return r.leaveQueues(tx)
}
