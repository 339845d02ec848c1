package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Acquire acquires the keys, and waits for them as long as the request says.
//
// The error is a [*HeldError] when someone else blocks a key and the time to
// wait is over. The caller's ticket then keeps its turn for 30 seconds, and its
// place for another 5 minutes, in which others may pass it: the same call again
// continues. A [*DeadlockError] says that waiting cannot end.
func Acquire(ctx context.Context, st *store.Store, r AcquireRequest) (Grant, error) {
	return acquire(ctx, st, r, nil)
}

func acquire(ctx context.Context, st *store.Store, r AcquireRequest, from *Origin) (Grant, error) {
	a, err := newAcquisition(st, r, r.Remote)
	if err != nil {
		return Grant{}, err
	}
	if a.origin = from; from != nil {
		if err := a.checkOrigin(); err != nil {
			return Grant{}, err
		}
	}
	g, err := a.run(ctx, st)
	if err != nil {
		return Grant{}, err
	}
	return *g, nil
}

// acquisition is the run of an [AcquireRequest].
type acquisition struct {
	req       AcquireRequest // as it was given, with defaults; it never changes
	ttl       time.Duration
	ticketTTL time.Duration // of a waiter
	origin    *Origin       // where another system held it before; nil: nowhere
	wait      time.Duration
	user      bool   // it works while it holds: see users.go
	attached  bool   // the owner belongs to this call: no other can continue its ticket
	call      string // the mark of this call on what it writes: see theirs
	first     int    // which of the free slots of a pool it takes first: random, see slots.go
	now       func() host.Moment

	fresh  string      // the id of a lease without an earlier ticket
	joined string      // the id under which an earlier attempt joined the queues
	past   []string    // keys whose queues this call joined before its names changed their meaning
	tidied []TakenOver // ended before the grant, because they were too many for one commit
	began  host.Moment // of the attempt that succeeded

	attempt
}

// attempt is the result of one run of the transaction. The next run, after a
// conflict, begins with a new one.
type attempt struct {
	id       string                              // of the lease
	queued   bool                                // it continues the ticket of an earlier attempt
	asked    []string                            // the keys that the names of the request mean
	keys     []string                            // those, and the keys around them
	names    map[string]string                   // key → the name it was given, if another
	older    map[string]map[string]string        // key → locks on its names: see taskname.go
	outer    map[string]string                   // key → the key around it
	used     []string                            // by an earlier call of this request, see noteUse
	wanted   []string                            // keys that the owner does not hold yet
	busy     []string                            // keys that it holds and others work under
	weight   int                                 // how many more locks its pools mean than they are keys
	lapsed   lapses                              // tickets found lapsed
	queues   map[string]store.Entry[queueRecord] // as this run has read them
	unseen   bool                                // it joins a queue before it looks who is ahead
	due      bool                                // the heartbeat of its ticket is
	searched bool                                // for a deadlock
	near     []string                            // records of those in its way: the next attempt reads them at once
	actors   []string                            // who work under what is in its way, for the same reason

	blockers []blocker
	taken    []string // keys that nobody held
	renewed  []string // leases that are used again
	victims  []victim
	waited   float64 // seconds in the queue

	written leaseRecord
}

// newAcquisition checks a request and fills in its defaults.
func newAcquisition(st *store.Store, r AcquireRequest, user bool) (a *acquisition, err error) {
	if r.Keys, err = checkKeys(r.Keys); err != nil {
		return nil, err
	}
	if err := CheckOwner(r.Owner); err != nil {
		return nil, err
	}
	times := TimesOf(st.Scheme())
	if r.TTL == 0 && user {
		r.TTL = times.Attached
	}
	a = &acquisition{req: r, ttl: r.TTL, ticketTTL: times.Ticket, user: user, call: NewID(), first: drawSlot(), now: clocks, fresh: r.ID}
	if !a.requested() {
		a.fresh = NewID()
	}
	if r.TTL == 0 {
		a.ttl = cmp.Or(r.DefaultTTL, times.Of(r.Keys...))
	}
	if !r.DryRun {
		a.wait = r.Wait
	}
	if r.Stay {
		a.call, a.wait = r.Holder, max(a.wait, 1) // the first attempt of such a wait is the last
	}
	a.attempt = attempt{id: a.fresh, asked: r.Keys, keys: r.Keys}
	return a, a.check()
}

// requested reports whether the caller named the request.
func (a *acquisition) requested() bool { return a.req.ID != "" }

// lease is the full name of the request's lease.
func (a *acquisition) lease() string { return a.req.Owner + "/" + a.id }

// theirs reports whether another call wrote the record of this request's lease: a
// call of the same owner that continued the ticket of a call it took for dead, or
// that acquired the lock again.
func (a *acquisition) theirs(l leaseRecord) bool {
	return l.Call != a.call
}

// run tries, and while it may, waits and tries again.
func (a *acquisition) run(ctx context.Context, st *store.Store) (*Grant, error) {
	start, wait := time.Now(), a.wait
	for {
		last := wait > 0 && time.Since(start) >= wait
		g, err := a.try(ctx, st, a.waiter(last))
		if g != nil {
			return g, nil
		}
		if err == nil && a.unseen {
			continue
		}
		if err == nil && a.due {
			err = a.beat(ctx, st)
		}
		if err == nil && wait > 0 && !last && !a.searched {
			err = st.View(ctx, a.query(), a.deadlocked)
		}
		if err != nil {
			if a.joined != "" && !a.mayComeBack(ctx) || errors.Is(err, store.ErrUnknown) && !a.requested() {
				a.abandon(st)
			}
			return nil, err
		}
		held := a.nearest()
		if wait > 0 {
			held.Waited = time.Since(start)
		}
		if wait == 0 || last {
			if a.joined != "" && a.attached {
				a.abandon(st)
				held.Position = 0
			}
			return nil, &held
		}
		if a.req.Waiting != nil {
			a.req.Waiting(held)
		}
		if err := a.pause(ctx, st, min(wait-time.Since(start), a.ticketTTL/3)); err != nil {
			if !a.mayComeBack(ctx) {
				a.abandon(st)
			}
			return nil, err
		}
	}
}

// mayComeBack reports whether the client of a server is gone, and its ticket stays
// for it as if its wait had been too short.
func (a *acquisition) mayComeBack(ctx context.Context) bool {
	return a.req.Remote && ctx.Err() != nil
}

// pause returns when another attempt may succeed, or after atMost. A ticket ahead
// that was only renewed changes nothing: an attempt would read the whole queue, and
// each waiter wakes the one behind it by its heartbeat.
func (a *acquisition) pause(ctx context.Context, st *store.Store, atMost time.Duration) error {
	clear(a.queues) // or each waiter of a long queue would keep a copy
	for until := time.Now().Add(atMost); ; {
		err := pauseFor(ctx, st, a.blockers, time.Until(until))
		if err != nil || !time.Now().Before(until) || !a.stillBehind(ctx, st) {
			return err
		}
	}
}

// nearest is the blocker to name: one of a requested key, rather than of an outer
// key.
func (a *acquisition) nearest() HeldError {
	for _, b := range a.blockers {
		if slices.Contains(a.asked, b.held.Asked) {
			return b.held
		}
	}
	return a.blockers[0].held
}

// try makes one attempt. If it is blocked it queues, with a ticket that ends with
// the waiter.
func (a *acquisition) try(ctx context.Context, st *store.Store, waiter host.Process) (g *Grant, err error) {
	began := a.now()
	rev, err := UpdateOrLook(ctx, st, a.req.DryRun, a.query(), func(tx *store.Tx) (err error) {
		g = nil
		if a.req.First != nil {
			if err := a.req.First(tx); err != nil {
				return err
			}
		}
		g, err = a.take(tx)
		switch {
		case err != nil || len(a.blockers) == 0:
			return err
		case a.req.First != nil || a.wait == 0:
			return errBlocked
		}
		if err := a.join(tx, waiter); err != nil || tx.Len() > 0 {
			return err
		}
		a.searched = true // it has joined before
		return cmp.Or(a.deadlocked(tx), errWaiting)
	})
	switch {
	case errors.Is(err, errBlocked):
		return nil, nil
	case errors.Is(err, errWaiting):
		err = nil
	}
	if err != nil || g == nil {
		if err == nil && a.wait > 0 {
			a.joined, a.fresh = a.id, NewID()
		}
		return nil, err
	}
	g.settle(rev)
	a.began = began
	return g, nil
}

// waiter is the process whose death ends the ticket. The last attempt of a wait
// leaves a ticket without one, unless this process comes back.
func (a *acquisition) waiter(last bool) host.Process {
	switch {
	case a.req.Stay:
		return host.Self()
	case last || a.req.Remote:
		return host.Process{}
	case a.req.Process.PID == 0:
		return host.Self()
	}
	return a.req.Process
}

// errBlocked ends a transaction that acquired nothing. What its First has written
// does not count, and nothing that was read needs to last.
var errBlocked = errors.New("blocked")

// errWaiting ends a look of a waiter whose ticket is in the queue already: it only
// waits on, and nothing that was read needs to last.
var errWaiting = errors.New("waiting")

// abandon undoes a wait that was given up: it leaves the queues, and releases
// what may have been granted meanwhile. The grant of a named request stays: its
// repetition gets it. So does a ticket that another call has continued.
//
// If so many leave a queue at once that the time is over before its turn, or before the
// store has read the queue, it deletes the ticket alone: nobody waits behind a place
// without a ticket.
func (a *acquisition) abandon(st *store.Store) {
	if a.leave(st, true) {
		a.leave(st, false)
	}
}

// leave reports whether the time was too short.
func (a *acquisition) leave(st *store.Store, queues bool) (late bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	need := a.needs()
	if !queues {
		need = leaseKeys([]string{a.lease()})
	}
	_, err := Update(ctx, st, driver.Query{Keys: need}, func(tx *store.Tx) error {
		own, err := getLease(tx, a.lease())
		if err != nil || own.Exists() && a.theirs(own.Value) {
			return err
		}
		if queues {
			err = a.leaveQueues(tx, nil)
		}
		switch {
		case err != nil || !own.Exists():
			return err
		case own.Value.ticket():
			tx.Delete(own.Key)
		case !a.requested():
			_, err = releaseUnused(tx, own, ending{event: "released", why: "gave up waiting"})
		}
		return err
	})
	return err != nil && ctx.Err() != nil
}

// needs names the records that every attempt reads.
func (a *acquisition) needs() []string {
	keys := []string{leaseKind + a.lease()}
	if a.requested() {
		keys = append(keys, requestKind+a.lease())
	}
	for _, k := range a.keys {
		keys = append(keys, needKey(k)...)
	}
	keys = append(keys, nameKeys(a.req.Keys)...)
	return append(keys, a.req.Need...)
}

// query is needs, what was in the way before, and what overlapping paths need.
func (a *acquisition) query() driver.Query {
	q := driver.Query{Keys: append(a.needs(), a.near...)}
	if !a.requested() && a.joined == "" {
		q.New = []string{leaseKind + a.lease()}
	}
	if slices.ContainsFunc(a.keys, isPath) {
		q.Ranges = []driver.Range{{Prefix: pathKind}, {Prefix: pathQueue}}
	}
	if a.joined != "" { // it will look for a deadlock
		for _, actor := range a.actors {
			q.Ranges = append(q.Ranges, driver.Range{Prefix: leasesOfActor(actor)})
		}
	}
	return q
}
