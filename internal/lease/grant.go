package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
)

// Grant is the result of an acquisition.
type Grant struct {
	LeaseID    string      `json:"leaseId"` // "<owner>/<id>"
	Owner      string      `json:"owner"`
	Keys       []KeyGrant  `json:"keys"`
	Token      int64       `json:"token"` // the largest of the keys'
	AcquiredAt time.Time   `json:"acquiredAt"`
	ExpiresAt  Expiry      `json:"expiresAt"`
	TookOver   []TakenOver `json:"tookOver"`

	leases []string // all that hold the keys
}

// KeyGrant is one key of a grant.
type KeyGrant struct {
	Key       string `json:"key"`
	Name      string `json:"name,omitempty"` // the requested name, if that is not the key: of a slot, the pool
	Slot      int    `json:"slot,omitempty"` // the number of a slot; 0: the key is none
	Token     int64  `json:"token"`
	Reentrant bool   `json:"reentrant"` // the owner, or a parent, held it before
	Lease     string `json:"-"`         // that holds it
}

// Slots are the numbers of the slots in the grant, in the order of the pools. A place
// in a section has no number that anybody asked for.
func (g Grant) Slots() (numbers []int) {
	for _, k := range g.Keys {
		if k.Slot > 0 && !ofSection(queueOf(k.Key)) {
			numbers = append(numbers, k.Slot)
		}
	}
	return numbers
}

// TakenOver names an owner that the grant replaced.
type TakenOver struct {
	Key   string `json:"key"`
	Owner string `json:"owner"`
	Why   State  `json:"why"`
}

// settle fills in what only the commit knows: its revision.
func (g *Grant) settle(rev int64) {
	g.Token = 0
	for i := range g.Keys {
		if g.Keys[i].Token == store.Pending {
			g.Keys[i].Token = rev
		}
		g.Token = max(g.Token, g.Keys[i].Token)
	}
}

// record is the request as a lease record without keys that ends with a process.
func (a *acquisition) record(p host.Process) leaseRecord {
	l := leaseRecord{
		Owner: a.req.Owner, TTL: a.ttl.Seconds(), MaxHold: a.req.MaxHold.Seconds(),
		Worktree: a.req.Worktree, Session: a.req.Session, Label: a.req.Label, Reason: a.req.Reason, Requested: a.requested(), Digest: a.req.Digest, Attached: a.user, For: a.req.For, Call: a.call,
	}
	a.where(&l, p)
	return l
}

// write puts a grant into the transaction.
func (a *acquisition) write(tx *store.Tx, g *Grant) error {
	for _, name := range a.renewed {
		until, err := a.reuse(tx, name)
		if err != nil {
			return err
		}
		g.ExpiresAt = g.ExpiresAt.sooner(until)
		g.LeaseID = name
	}
	g.leases = a.renewed
	using, err := a.using(tx)
	if err != nil {
		return err
	}
	if len(a.taken)+len(using) == 0 {
		if err := cmp.Or(a.noteUse(tx, a.renewed), a.leaveQueues(tx, a.lapsed)); err != nil {
			return err
		}
		return a.then(tx, g)
	}
	if len(a.taken) > 0 || a.req.Remote { // its client renews and releases by this name
		g.LeaseID = a.lease()
	}
	if !slices.Contains(a.renewed, a.lease()) {
		g.leases = append(g.leases, a.lease())
	}
	if err := a.putLocks(tx, g.AcquiredAt); err != nil {
		return err
	}
	if err := a.putLease(tx, g, using); err != nil {
		return err
	}
	if err := a.leaveQueues(tx, a.lapsed); err != nil {
		return err
	}
	if len(a.taken) > 0 {
		if err := Log(tx, Event{Event: "acquired", Keys: a.taken, Owner: a.req.Owner, Lease: a.lease(), Waited: a.waited, Reason: a.req.Reason}); err != nil {
			return err
		}
	}
	return a.then(tx, g)
}

// putLocks writes a lock on each key that nobody held.
func (a *acquisition) putLocks(tx *store.Tx, now time.Time) error {
	for _, key := range a.taken {
		if err := tx.Put(recordOf(key), lockRecord{Key: key, Lease: a.lease(), Owner: a.req.Owner, Since: a.since(now)}); err != nil {
			return err
		}
		if slices.Contains(a.asked, key) {
			if err := a.putAliases(tx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// putLease writes the lease with the acquired keys, which uses those of others.
func (a *acquisition) putLease(tx *store.Tx, g *Grant, using []string) error {
	l := a.record(a.req.Process)
	own, err := getLease(tx, a.lease())
	if err != nil {
		return err
	}
	l.Keys, l.Since = append(own.Value.Keys, a.taken...), a.since(g.AcquiredAt)
	l.Using = append(own.Value.Using, Without(using, own.Value.Using)...)
	if l.OuterKeys, l.Uses = maps.Clone(own.Value.OuterKeys), own.Value.Uses; own.Value.holds() {
		l.Auto = own.Value.Auto
	}
	l.UsedBy, l.Direct, l.PutsBack = own.Value.UsedBy, own.Value.Direct, own.Value.PutsBack
	if err := a.linkOuterKeys(tx, &l); err != nil {
		return err
	}
	if err := a.enter(tx, &l, using); err != nil {
		return err
	}
	window, err := sustain(tx, a.lease(), l)
	if err != nil {
		return err
	}
	l.TTL = min(l.TTL, window.Seconds())
	if err := putLease(tx, a.lease(), l, 0); err != nil {
		return err
	}
	a.written = l
	g.ExpiresAt = g.ExpiresAt.sooner(endsAfter(tx.Now(), l.window(0)))
	return nil
}

func (a *acquisition) then(tx *store.Tx, g *Grant) error {
	if a.req.Then == nil {
		return nil
	}
	return a.req.Then(tx, g)
}

// reuse renews a lease whose keys the request uses again. The owner itself may
// give it another ttl; a child may only renew. If only the outer key of a lease is
// used, the lease does not change, but lasts as long as what relies on it.
func (a *acquisition) reuse(tx *store.Tx, name string) (until Expiry, err error) {
	ls, err := getLease(tx, name)
	if err != nil {
		return until, err
	}
	l := ls.Value
	around := len(Without(a.asked, l.Keys)) == len(a.asked)
	switch {
	case l.Owner == a.req.Owner && around:
		l.TTL = max(l.TTL, a.ttl.Seconds())
	case l.Owner == a.req.Owner:
		l.Call = a.call
		if l.Auto = Without(l.Auto, a.asked); a.req.TTL != 0 && !(a.ttl == Endless && l.Attached) {
			if a.ttl.Seconds() < l.TTL { // do not shorten the time of those who work under it
				if err := cmp.Or(inUse(tx, ls, l.Keys), l.putAllBack(tx)); err != nil {
					return until, err
				}
			}
			l.TTL = a.ttl.Seconds()
		}
		if l.Left { // its owner takes it again
			l.Group, l.Left = 0, false
			l.Process = a.req.Process
		}
		switch {
		case l.Attached || l.Group != 0:
		case l.endless():
			l.Process = host.Process{}
		case a.req.Process.PID != 0 || l.kept: // it ends with another process now or, if its own is dead, with none
			l.Process = a.req.Process
		}
	}
	window, err := touch(tx, name, l)
	return endsAfter(tx.Now(), window), err
}

// heldFor is how long a lease has been held, by the store's clock. It is for max
// hold.
func heldFor(tx *store.Tx, l leaseRecord) (time.Duration, error) {
	if l.MaxHold == 0 || !l.holds() {
		return 0, nil
	}
	if len(l.Keys) == 0 { // it took no lock
		return max(0, tx.Now().Sub(l.Since)), nil
	}
	lk, err := getLock(tx, l.Keys[0])
	return lk.Age, err
}
