package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// AcquireRequest asks for all of its keys or none.
type AcquireRequest struct {
	Keys  []string
	Owner string

	// ID names the request, so that repeating it has one effect, also after
	// its lease has ended. Empty: a random one, which nobody can repeat.
	ID string

	// Holder, with Hold, is the last part of the holder's name. Empty: a random
	// one. A holder that was named can come back, so its place in the queue
	// stays when its wait was too short.
	Holder string

	// For, with Hold, is the owner, or a parent of it, who works while this is
	// held, and does nothing while this waits. Empty: the holder works by itself.
	// The search for circles of waiters goes by it.
	For string

	Times   Times         // defaults; zero: Near
	TTL     time.Duration // without a heartbeat the lease ends so soon; 0: by the kind of the keys; Endless: never
	MaxHold time.Duration // it cannot be renewed beyond; 0: no bound
	Wait    time.Duration // how long to wait in all; 0: not at all

	Origin *Origin // it was held in another system before; nil: it was not

	Process  host.Process // whose death ends the lease; zero: none
	Group    int          // together with this process group; 0: none
	Worktree string
	Session  string
	Label    string // who is behind the owner, for people
	Reason   string

	DryRun bool // say what would happen, change nothing

	// Force takes the keys from whoever holds them, and passes everybody who
	// waits: see force.go. It needs a Reason.
	Force bool

	// Exact: the keys are ids of tasks. Each gets a lock of its own, also if the
	// owner holds the task under a name that it locked before the task bore it.
	Exact bool

	// First, if set, adds its own writes before anything is taken: they are
	// committed with the grant or not at all. It goes with no wait.
	First func(tx *store.Tx) error

	// Within, if set, names the key around a key, or "": the section of a task.
	// It is taken with it. See within.go.
	Within func(tx *store.Tx, key string) (string, error)

	// Need names further records that Within and Then will ask for, so that
	// they are read in the same round trip.
	Need []string

	// Then, if set, adds its own writes to the commit that grants.
	Then func(tx *store.Tx, g *Grant) error

	// Waiting, if set, is told about the wait, at its start and whenever
	// something changes.
	Waiting func(HeldError)

	given     []string                     // the names that the caller gave
	names     map[string]string            // key → the name it was given, if another
	older     map[string]map[string]string // key → locks on its names: see names.go
	asked     []string                     // the keys that those mean; Keys has those around them too
	outer     map[string]string            // key → the key around it
	written   leaseRecord                  // by the attempt that succeeded
	requested bool
	used      []string // by an earlier call of this request, see noteUse
	user      bool     // it works for as long as it holds: see users.go
	attached  bool     // the owner is this call's alone: nobody can go on with its ticket
	ttlGiven  bool
	fresh     string               // the id to use when no ticket of an earlier call is adopted
	call      string               // this call's own mark on what it writes: see theirs
	wanted    []string             // keys that the owner does not hold yet, in this run
	past      []string             // keys whose queues this call joined when its names meant others
	busy      []string             // keys that it holds, and under which somebody else works, in this run
	lapsed    map[string]time.Time // tickets found lapsed in this run, and since when
	queued    bool                 // this call has joined the queues
	now       func() host.Moment   // the clocks of this machine
	began     host.Moment          // of the attempt that succeeded
	second    *leaseRecord         // planted bug: written by a commit of its own
	tidied    []TakenOver          // ended before the commit that grants, because they were many
}

// Acquire takes the keys, waiting for them as long as the request says.
//
// The error is a [*HeldError] when someone else is in the way and the time to
// wait is over. The caller's place in the queue then stays for 30 seconds, and
// for another 5 minutes lets others pass but not push it back: the same call
// again goes on from there. A [*CycleError] says that waiting cannot end.
func Acquire(ctx context.Context, st *store.Store, r AcquireRequest) (Grant, error) {
	if err := r.check(); err != nil {
		return Grant{}, err
	}
	if r.DryRun {
		r.Wait = 0
	}
	g, err := r.acquire(ctx, st)
	if err != nil {
		return Grant{}, err
	}
	return *g, nil
}

// check validates and fills in defaults.
func (r *AcquireRequest) check() (err error) {
	if r.Keys, err = checkKeys(r.Keys); err != nil {
		return err
	}
	if err := CheckOwner(r.Owner); err != nil {
		return err
	}
	r.given, r.asked = r.Keys, r.Keys
	r.requested, r.ttlGiven = r.ID != "", r.TTL != 0
	if !r.requested {
		r.ID = NewID()
	}
	if r.now == nil {
		r.now = clocks
	}
	r.fresh, r.call = r.ID, NewID()
	if r.Times == (Times{}) {
		r.Times = Near
	}
	if !r.ttlGiven {
		for _, k := range r.Keys {
			r.TTL = max(r.TTL, r.Times.Of(k))
		}
	}
	switch {
	case r.MaxHold < 0 || r.MaxHold > maxMaxHold:
		return &InvalidError{What: "max hold " + r.MaxHold.String(), Rule: "must be between 0 and 8760h (a year)"}
	case r.For != "" && !descends(r.Owner, r.For):
		return &InvalidError{What: "for " + quote(r.For), Rule: "must be the owner or a parent of it"}
	case r.Wait != 0 && r.First != nil:
		return &InvalidError{What: "wait", Rule: "does not go with a commit that does more than take keys"}
	case r.Wait < 0 || r.Wait > MaxTTL:
		return &InvalidError{What: "wait " + r.Wait.String(), Rule: "must be between 0 and 720h (30 days)"}
	}
	return errors.Join(checkID(r.ID), r.checkTTL(), r.checkForce(), r.checkOrigin(),
		checkText("reason", r.Reason), checkText("worktree", r.Worktree), checkText("session", r.Session), checkText("label", r.Label))
}

// theirs reports whether a record under the name of this request's lease was
// written by another call: one of the same owner that went on with the ticket
// of a call it took for gone, or that took the lock again.
func (r *AcquireRequest) theirs(l leaseRecord) bool {
	return l.Call != r.call && !fault.Bug("abandon_adopted")
}

// lease is the full name of the request's lease.
func (r *AcquireRequest) lease() string { return r.Owner + "/" + r.ID }

// record is the request as a lease record, without keys.
func (r *AcquireRequest) record() leaseRecord {
	l := leaseRecord{
		Owner: r.Owner, TTL: r.TTL.Seconds(), MaxHold: r.MaxHold.Seconds(),
		Worktree: r.Worktree, Session: r.Session, Label: r.Label, Reason: r.Reason, Requested: r.requested, Attached: r.user, For: r.For, Call: r.call,
	}
	r.where(&l)
	return l
}

// needs names the records that every attempt looks at.
func (r *AcquireRequest) needs() []string {
	keys := []string{leaseKind + r.lease()}
	if r.requested {
		keys = append(keys, requestKind+r.lease())
	}
	for _, k := range r.Keys {
		keys = append(keys, recordOf(k), queueKind+k)
	}
	keys = append(keys, nameKeys(r.given)...)
	return append(keys, r.Need...)
}

// query is needs with what overlapping paths need.
func (r *AcquireRequest) query() driver.Query {
	q := driver.Query{Keys: r.needs()}
	if slices.ContainsFunc(r.Keys, isPath) {
		q.Ranges = []driver.Range{{Prefix: pathKind}, {Prefix: pathQueue}}
	}
	return q
}

// grantedBefore tells whether this is the repetition of a request that was
// granted. It refuses a request id that was used for something else, or whose
// lease has ended.
func (r *AcquireRequest) grantedBefore(tx *store.Tx) (bool, error) {
	r.used = nil
	if !r.requested {
		return false, nil
	}
	done, err := store.Get[receipt](tx, requestKind+r.lease())
	if err != nil {
		return false, err
	}
	own, err := getLease(tx, r.lease())
	if err != nil {
		return false, err
	}
	before := slices.Concat(done.Value.Keys, own.Value.all(), own.Value.WaitsFor)
	switch {
	case done.Value.Broke != nil || slices.ContainsFunc(without(before, r.Keys), r.asks):
		return false, usedBefore(r.ID)
	case done.Exists() && done.Value.Used == nil:
		return false, r.over(r.Keys[0], done.Value.Ended)
	}
	r.used = done.Value.Used
	return own.Value.holds() || r.used != nil, nil
}

// noteUse leaves the receipt of a request that was granted what its owner had
// already: no lease of its own says so.
func (r *AcquireRequest) noteUse(tx *store.Tx, leases []string) error {
	if !r.requested || r.attached || r.used != nil {
		return nil
	}
	own, err := getLease(tx, r.lease())
	if err != nil || own.Value.holds() {
		return err
	}
	return putReceipt(tx, r.lease(), receipt{Keys: r.asked, Used: leases})
}

// Once is a [AcquireRequest.Then] that lets a request of an attached holder be
// granted once: each holder is an owner of its own, so the request is noted
// under the owner that it is a child of.
func Once(owner, id string) func(*store.Tx, *Grant) error {
	call := NewID() // the same call finds its own receipt when the reply to its commit was lost
	return func(tx *store.Tx, g *Grant) error {
		if err := errors.Join(CheckOwner(owner), checkID(id)); err != nil {
			return err
		}
		done, err := store.Get[receipt](tx, requestKind+owner+"/"+id)
		if err != nil {
			return err
		}
		var keys []string
		for _, k := range g.Keys {
			keys = append(keys, k.Key)
		}
		switch {
		case done.Exists() && done.Value.Call == call:
			return nil
		case done.Exists():
			return &LostError{Key: keys[0], Why: fmt.Sprintf("request %s was granted before", quote(id))}
		}
		return putReceipt(tx, owner+"/"+id, receipt{Keys: keys, Ended: "done", Call: call})
	}
}

// asks reports whether a key that an earlier request of this id had was asked
// for: a section may also have come with a task, which has moved since.
func (r *AcquireRequest) asks(key string) bool {
	kind, _ := KindOf(key)
	return r.Within == nil || kind != Section
}

// over is the answer to a repeated request of which that key is not held any
// more: it has had its one effect.
func (r *AcquireRequest) over(key, how string) error {
	return &LostError{Key: key, Why: fmt.Sprintf("request %s was granted before and is %s", quote(r.ID), how)}
}

// acquire tries, and while it may, waits and tries again.
func (r *AcquireRequest) acquire(ctx context.Context, st *store.Store) (*Grant, error) {
	start := time.Now()
	ticket := r.Process
	if r.Wait > 0 && ticket.PID == 0 {
		ticket = host.Self() // whoever waits lives in this process
	}
	for {
		last := r.Wait > 0 && time.Since(start) >= r.Wait
		g, blocked, err := r.try(ctx, st, ticket, last)
		if g != nil {
			return g, nil
		}
		r.queued = r.queued || err == nil && r.Wait > 0
		if err == nil && r.Wait > 0 && !last {
			err = r.circle(ctx, st)
		}
		if err != nil {
			if r.queued || errors.Is(err, store.ErrUnknown) && !r.requested {
				r.abandon(st)
			}
			return nil, err
		}
		held := r.nearest(blocked)
		if r.Wait > 0 {
			held.Waited = time.Since(start)
		}
		if r.Wait == 0 || last {
			if r.queued && r.attached {
				r.abandon(st)
				held.Position = 0
			}
			return nil, &held
		}
		if r.Waiting != nil {
			r.Waiting(held)
		}
		if err := pauseFor(ctx, st, blocked, min(r.Wait-time.Since(start), r.Times.Ticket/3)); err != nil {
			r.abandon(st)
			return nil, err
		}
	}
}

// nearest is the blocker to name: one of a key that was asked for, rather than
// of one around it.
func (r *AcquireRequest) nearest(blocked []blocker) HeldError {
	for _, b := range blocked {
		if slices.Contains(r.asked, b.held.Asked) {
			return b.held
		}
	}
	return blocked[0].held
}

// try makes one attempt. When blocked it queues, or with last leaves a ticket
// that belongs to no process.
func (r *AcquireRequest) try(ctx context.Context, st *store.Store, ticket host.Process, last bool) (g *Grant, blocked []blocker, err error) {
	began := r.now()
	rev, err := update(ctx, st, r.DryRun, r.query(), func(tx *store.Tx) (err error) {
		g, blocked = nil, nil
		if r.First != nil {
			if err := r.First(tx); err != nil {
				return err
			}
		}
		g, blocked, err = take(tx, r)
		switch {
		case err == nil && len(blocked) > 0 && r.First != nil:
			return errBlocked
		case err != nil || len(blocked) == 0 || r.Wait == 0:
			return err
		}
		t := *r
		if t.Process = ticket; last {
			t.Process = host.Process{}
		}
		return t.join(tx, blocked)
	})
	if errors.Is(err, errBlocked) {
		return nil, blocked, nil
	}
	if err != nil || g == nil {
		return nil, blocked, err
	}
	if fault.Bug("deadline_from_reply") {
		began = r.now()
	}
	if fault.Bug("empty_is_free") && r.second != nil {
		if _, err := st.Update(ctx, driver.Query{}, func(tx *store.Tx) error { return putLease(tx, r.lease(), *r.second, 0) }); err != nil {
			return nil, nil, err
		}
	}
	g.settle(rev)
	r.began = began
	return g, nil, nil
}

// errBlocked keeps a transaction from being committed whose First has written
// something: nothing was taken.
var errBlocked = errors.New("blocked")

// pauseFor returns when one of the blockers may have gone: it changed, its
// time is over, its process died, or atMost has passed.
func pauseFor(ctx context.Context, st *store.Store, blocked []blocker, atMost time.Duration) error {
	var guards []driver.Guard
	var watch []leaseRecord
	for _, b := range blocked {
		guards = append(guards, b.guards...)
		atMost = min(atMost, b.ends+time.Millisecond)
		if b.lease.watchable() {
			watch = append(watch, b.lease)
		}
	}
	wctx, cancel := context.WithTimeout(ctx, max(atMost, time.Millisecond))
	defer cancel()
	changed := make(chan error, 1)
	guards = guards[:min(len(guards), driver.MaxGuards)] // all must go: the first of so many will tell
	go func() { changed <- st.Wait(wctx, guards) }()
	var look <-chan time.Time
	if len(watch) > 0 {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		look = t.C
	}
	for {
		select {
		case err := <-changed:
			if err == nil || wctx.Err() != nil && ctx.Err() == nil {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			<-wctx.Done() // the store cannot wait now: look again when the time is over
			return context.Cause(ctx)
		case <-look:
			if slices.ContainsFunc(watch, leaseRecord.gone) {
				cancel()
				<-changed
				return nil
			}
		}
	}
}

// abandon undoes a wait that was given up: it leaves the queues, and gives
// back what may have been granted while the caller was leaving. What a named
// request was granted stays: whoever repeats it gets it. So does what another
// call has made of the ticket.
func (r *AcquireRequest) abandon(st *store.Store) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, _ = Update(ctx, st, driver.Query{Keys: r.needs()}, func(tx *store.Tx) error {
		r.lapsed = nil
		own, err := getLease(tx, r.lease())
		if err != nil || own.Exists() && r.theirs(own.Value) {
			return err
		}
		if err := r.leaveQueues(tx); err != nil || !own.Exists() {
			return err
		}
		switch {
		case own.Value.ticket():
			tx.Delete(own.Key)
		case !r.requested:
			_, err := giveBack(tx, own, ending{event: "released", why: "gave up waiting"})
			return err
		}
		return nil
	})
}
