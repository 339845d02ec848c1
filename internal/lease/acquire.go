package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Acquire takes the keys, waiting for them as long as the request says.
//
// The error is a [*HeldError] when someone else is in the way and the time to
// wait is over. The caller's place in the queue then stays for 30 seconds, and
// for another 5 minutes lets others pass but not push it back: the same call
// again goes on from there. A [*DeadlockError] says that waiting cannot end.
func Acquire(ctx context.Context, st *store.Store, r AcquireRequest) (Grant, error) {
	a, err := newAcquisition(st, r, false)
	if err != nil {
		return Grant{}, err
	}
	g, err := a.run(ctx, st)
	if err != nil {
		return Grant{}, err
	}
	return *g, nil
}

// acquisition is the run of an [AcquireRequest].
type acquisition struct {
	req      AcquireRequest // as it was given, with defaults; it never changes
	ttl      time.Duration
	wait     time.Duration
	user     bool   // it works for as long as it holds: see users.go
	attached bool   // the owner is this call's alone: nobody can go on with its ticket
	call     string // this call's own mark on what it writes: see theirs
	now      func() host.Moment

	fresh  string      // the id of a lease that goes on with no ticket
	joined string      // the id under which an earlier attempt joined the queues
	past   []string    // keys whose queues this call joined when its names meant others
	tidied []TakenOver // ended before the commit that grants, because they were many
	began  host.Moment // of the attempt that succeeded

	attempt
}

// attempt is what one run of the transaction works out. The next run, after a
// conflict, begins with another one.
type attempt struct {
	id     string                       // of the lease
	queued bool                         // it goes on with the ticket of an earlier attempt
	asked  []string                     // the keys that the names of the request mean
	keys   []string                     // those, and the keys around them
	names  map[string]string            // key → the name it was given, if another
	older  map[string]map[string]string // key → locks on its names: see taskname.go
	outer  map[string]string            // key → the key around it
	used   []string                     // by an earlier call of this request, see noteUse
	wanted []string                     // keys that the owner does not hold yet
	busy   []string                     // keys that it holds, and under which somebody else works
	lapsed lapses                       // tickets found lapsed

	blockers []blocker
	taken    []string // keys that nobody held
	renewed  []string // leases that are used again
	victims  []victim

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
	if r.Times == (Times{}) {
		r.Times = TimesOf(st.Scheme())
	}
	if r.TTL == 0 && user {
		r.TTL = r.Times.Attached
	}
	a = &acquisition{req: r, ttl: r.TTL, user: user, call: NewID(), now: clocks, fresh: r.ID}
	if !a.requested() {
		a.fresh = NewID()
	}
	if r.TTL == 0 {
		for _, k := range r.Keys {
			a.ttl = max(a.ttl, r.Times.Of(k))
		}
	}
	if !r.DryRun {
		a.wait = r.Wait
	}
	a.attempt = attempt{id: a.fresh, asked: r.Keys, keys: r.Keys}
	return a, a.check()
}

// requested reports whether the caller named the request.
func (a *acquisition) requested() bool { return a.req.ID != "" }

// lease is the full name of the request's lease.
func (a *acquisition) lease() string { return a.req.Owner + "/" + a.id }

// theirs reports whether a record under the name of this request's lease was
// written by another call: one of the same owner that went on with the ticket
// of a call it took for gone, or that took the lock again.
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
		if err == nil && wait > 0 && !last {
			err = a.deadlock(ctx, st)
		}
		if err != nil {
			if a.joined != "" || errors.Is(err, store.ErrUnknown) && !a.requested() {
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
		if err := pauseFor(ctx, st, a.blockers, min(wait-time.Since(start), a.req.Times.Ticket/3)); err != nil {
			a.abandon(st)
			return nil, err
		}
	}
}

// nearest is the blocker to name: one of a key that was asked for, rather than
// of one around it.
func (a *acquisition) nearest() HeldError {
	for _, b := range a.blockers {
		if slices.Contains(a.asked, b.held.Asked) {
			return b.held
		}
	}
	return a.blockers[0].held
}

// try makes one attempt. When blocked it queues, with a ticket that ends with the
// waiter.
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
		case a.req.First != nil:
			return errBlocked
		case a.wait == 0:
			return nil
		}
		return a.join(tx, waiter)
	})
	if errors.Is(err, errBlocked) {
		return nil, nil
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

// waiter is the process whose death ends the ticket. A wait that is over leaves
// a ticket without one.
func (a *acquisition) waiter(last bool) host.Process {
	switch {
	case last:
		return host.Process{}
	case a.req.Process.PID == 0:
		return host.Self()
	}
	return a.req.Process
}

// errBlocked keeps a transaction from being committed whose First has written
// something: nothing was taken.
var errBlocked = errors.New("blocked")

// abandon undoes a wait that was given up: it leaves the queues, and gives
// back what may have been granted while the caller was leaving. What a named
// request was granted stays: whoever repeats it gets it. So does what another
// call has made of the ticket.
func (a *acquisition) abandon(st *store.Store) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, _ = Update(ctx, st, driver.Query{Keys: a.needs()}, func(tx *store.Tx) error {
		own, err := getLease(tx, a.lease())
		if err != nil || own.Exists() && a.theirs(own.Value) {
			return err
		}
		if err := a.leaveQueues(tx, nil); err != nil || !own.Exists() {
			return err
		}
		switch {
		case own.Value.ticket():
			tx.Delete(own.Key)
		case !a.requested():
			_, err := releaseUnused(tx, own, ending{event: "released", why: "gave up waiting"})
			return err
		}
		return nil
	})
}

// needs names the records that every attempt looks at.
func (a *acquisition) needs() []string {
	keys := []string{leaseKind + a.lease()}
	if a.requested() {
		keys = append(keys, requestKind+a.lease())
	}
	for _, k := range a.keys {
		keys = append(keys, recordOf(k), queueKind+k)
	}
	keys = append(keys, nameKeys(a.req.Keys)...)
	return append(keys, a.req.Need...)
}

// query is needs with what overlapping paths need.
func (a *acquisition) query() driver.Query {
	q := driver.Query{Keys: a.needs()}
	if slices.ContainsFunc(a.keys, isPath) {
		q.Ranges = []driver.Range{{Prefix: pathKind}, {Prefix: pathQueue}}
	}
	return q
}
