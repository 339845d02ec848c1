package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Grant is what an acquisition gives.
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
	Name      string `json:"name,omitempty"` // what it was asked for as, if that is not the key
	Token     int64  `json:"token"`
	Reentrant bool   `json:"reentrant"` // the owner, or a parent, held it before
	Lease     string `json:"-"`         // that holds it
}

// TakenOver tells whom the grant replaced.
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

// blocker is what keeps a request from one of its keys: the holder, or a
// ticket ahead.
type blocker struct {
	held   HeldError
	guards []driver.Guard // wait until one of these changes,
	lease  leaseRecord    // or this lease's process dies,
	ends   time.Duration  // or so much time has passed
	queued bool           // it is a ticket ahead
}

// victim is a lease that a grant replaces, found by one of its keys.
type victim struct {
	lease, key, owner string
	why               State
}

func (v victim) takenOver() TakenOver { return TakenOver{Key: v.key, Owner: v.owner, Why: v.why} }

// take grants all keys of the request, or says what is in the way of each.
// With any blocker nothing is written.
func take(tx *store.Tx, r *AcquireRequest) (*Grant, []blocker, error) {
	if err := r.name(tx); err != nil {
		return nil, nil, err
	}
	if err := r.resolve(tx); err != nil {
		return nil, nil, err
	}
	if err := r.surround(tx); err != nil {
		return nil, nil, err
	}
	if err := tx.Want(r.needs()...); err != nil {
		return nil, nil, err
	}
	if err := r.wantHolders(tx); err != nil {
		return nil, nil, err
	}
	repeated, err := r.grantedBefore(tx)
	if err != nil {
		return nil, nil, err
	}
	r.lapsed, r.wanted, r.busy = map[string]time.Time{}, nil, nil
	g := &Grant{LeaseID: r.lease(), Owner: r.Owner, AcquiredAt: tx.Now().UTC(), TookOver: []TakenOver{}}
	var (
		blockers []blocker
		fresh    []string
		renew    []string // leases that are used again
		victims  []victim
	)
	for _, key := range r.Keys {
		lk, err := getLock(tx, key)
		if err != nil {
			return nil, nil, err
		}
		if lk.Exists() {
			ls, err := getLease(tx, lk.Value.Lease)
			if err != nil {
				return nil, nil, err
			}
			state := stateOf(ls)
			again, err := r.again(tx, lk, ls, state)
			if err != nil {
				return nil, nil, err
			}
			if again && r.used != nil && !slices.Contains(r.used, lk.Value.Lease) {
				return nil, nil, r.over(key, "not held any more")
			}
			if again {
				g.Keys = append(g.Keys, KeyGrant{Key: key, Name: r.names[key], Token: lk.Rev, Reentrant: lk.Value.Lease != r.lease(), Lease: lk.Value.Lease})
				if !slices.Contains(renew, lk.Value.Lease) {
					renew = append(renew, lk.Value.Lease)
				}
				others, over, err := r.besides(tx, key, lk)
				if err != nil {
					return nil, nil, err
				}
				if victims = append(victims, over...); len(others) > 0 {
					blockers, r.busy = append(blockers, others...), append(r.busy, key)
				}
				continue
			}
			if state == Held && !repeated && !r.Force {
				b, err := r.blockedByHolder(tx, key, lk, ls)
				if err != nil {
					return nil, nil, err
				}
				blockers, r.wanted = append(blockers, *b), append(r.wanted, key)
				continue
			}
			victims = append(victims, victim{lease: lk.Value.Lease, key: key, owner: lk.Value.Owner, why: r.ends(state)})
		}
		if repeated {
			return nil, nil, r.over(key, "not held any more")
		}
		r.wanted = append(r.wanted, key)
		around, over, err := r.rivals(tx, key, true)
		if err != nil {
			return nil, nil, err
		}
		victims = append(victims, over...)
		if len(around) > 0 {
			blockers = append(blockers, around...)
			continue
		}
		b, err := r.blockedByTicket(tx, key)
		if err != nil {
			return nil, nil, err
		}
		if b != nil && !r.Force {
			blockers = append(blockers, *b)
			continue
		}
		fresh = append(fresh, key)
		g.Keys = append(g.Keys, KeyGrant{Key: key, Name: r.names[key], Token: store.Pending, Lease: r.lease()})
	}
	if len(blockers) > 0 {
		return nil, blockers, nil
	}
	g.TookOver = append(g.TookOver, r.tidied...)
	for _, v := range victims {
		g.TookOver = append(g.TookOver, v.takenOver())
	}
	if err := r.takeOver(tx, victims); err != nil {
		return nil, nil, err
	}
	if guardPaths(tx, fresh); r.user {
		guardPaths(tx, r.asked)
	}
	for _, k := range g.Keys {
		if lk, err := getLock(tx, k.Key); err != nil || k.Token != store.Pending && lk.Rev != k.Token { // it was kept for one of those
			again, blockers, err := take(tx, r)
			if again != nil {
				again.TookOver = g.TookOver
			}
			return again, blockers, err
		}
	}
	return g, nil, r.write(tx, g, fresh, renew)
}

// name settles under which id this run goes on. A call whose ticket another one
// has taken over, because it was silent for too long, begins anew.
func (r *AcquireRequest) name(tx *store.Tx) error {
	if r.queued && !r.requested {
		own, err := getLease(tx, r.lease())
		if err != nil {
			return err
		}
		if own.Exists() && r.theirs(own.Value) {
			r.queued, r.fresh = false, NewID()
		}
	}
	if !r.queued {
		r.ID = r.fresh
	}
	return nil
}

// again reports whether the request uses a lock that its owner, or a parent,
// has already. A late renewal is allowed while the record is still our own;
// what is over by its max hold is free, for its last owner as for others.
func (r *AcquireRequest) again(tx *store.Tx, lk store.Entry[lockRecord], ls store.Entry[leaseRecord], s State) (bool, error) {
	if !usable(lk.Value.Owner, r.Owner) || !ls.Exists() || s == Dead {
		return false, nil
	}
	held, err := heldFor(tx, ls.Value)
	return s == Held || ls.Value.window(held) > 0, err
}

// takeOver ends the leases that the grant replaces. Those that are too many for
// its commit end before it: they are over in any case.
func (r *AcquireRequest) takeOver(tx *store.Tx, victims []victim) error {
	if err := wantLeases(tx, victimLeases(victims)); err != nil {
		return err
	}
	need, how := r.toWrite(), ending{event: "taken over", by: r.Owner}
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
			if over := v.takenOver(); !slices.Contains(r.tidied, over) {
				r.tidied = append(r.tidied, over)
			}
		}
		return &crowded{victims: over, how: how, still: isOver}
	}
	for _, v := range victims {
		if err := endVictim(tx, v, r.ending(v)); err != nil {
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

// toWrite bounds the guards that a grant takes after it was decided.
func (r *AcquireRequest) toWrite() int { return 2 + 2*len(r.outer) }

// wantHolders reads at once the leases that hold the keys.
func (r *AcquireRequest) wantHolders(tx *store.Tx) error {
	var locks []store.Entry[lockRecord]
	for _, key := range r.Keys {
		lk, err := getLock(tx, key)
		if err != nil {
			return err
		}
		locks = append(locks, lk)
	}
	return wantHolders(tx, locks)
}

// write puts a grant into the transaction.
func (r *AcquireRequest) write(tx *store.Tx, g *Grant, fresh, renew []string) error {
	for _, name := range renew {
		until, err := r.reuse(tx, name)
		if err != nil {
			return err
		}
		g.ExpiresAt = g.ExpiresAt.sooner(until)
		g.LeaseID = name
	}
	g.leases, r.written = renew, leaseRecord{}
	using, err := r.using(tx)
	if err != nil {
		return err
	}
	if len(fresh)+len(using) == 0 {
		if err := cmp.Or(r.noteUse(tx, renew), r.leaveQueues(tx)); err != nil {
			return err
		}
		return r.then(tx, g)
	}
	if len(fresh) > 0 {
		g.LeaseID = r.lease()
	}
	if !slices.Contains(renew, r.lease()) {
		g.leases = append(g.leases, r.lease())
	}
	for _, key := range fresh {
		if err := tx.Put(recordOf(key), lockRecord{Key: key, Lease: r.lease(), Owner: r.Owner, Since: r.since(g.AcquiredAt)}); err != nil {
			return err
		}
		if slices.Contains(r.asked, key) {
			if err := r.putAliases(tx, key); err != nil {
				return err
			}
		}
	}
	l := r.record()
	own, err := getLease(tx, r.lease())
	if err != nil {
		return err
	}
	l.Keys, l.Since = append(own.Value.Keys, fresh...), r.since(g.AcquiredAt)
	l.Using = append(own.Value.Using, without(using, own.Value.Using)...)
	if l.Outer, l.Uses = maps.Clone(own.Value.Outer), own.Value.Uses; own.Value.holds() {
		l.Auto = own.Value.Auto
	}
	l.UsedBy, l.Direct = own.Value.UsedBy, own.Value.Direct
	if err := r.embed(tx, &l, fresh); err != nil {
		return err
	}
	if err := r.enter(tx, &l, using); err != nil {
		return err
	}
	window, err := sustain(tx, r.lease(), l)
	if err != nil {
		return err
	}
	l.TTL = min(l.TTL, window.Seconds())
	if fault.Bug("empty_is_free") {
		r.second = &l
	} else if err := putLease(tx, r.lease(), l, 0); err != nil {
		return err
	}
	r.written = l
	g.ExpiresAt = g.ExpiresAt.sooner(endsAfter(tx.Now(), l.window(0)))
	if err := r.leaveQueues(tx); err != nil {
		return err
	}
	if len(fresh) == 0 {
		return r.then(tx, g)
	}
	if err := Log(tx, Event{Event: "acquired", Keys: fresh, Owner: r.Owner, Lease: r.lease(), Reason: r.Reason}); err != nil {
		return err
	}
	return r.then(tx, g)
}

func (r *AcquireRequest) then(tx *store.Tx, g *Grant) error {
	if r.Then == nil {
		return nil
	}
	return r.Then(tx, g)
}

// reuse renews a lease whose keys the request uses again. The owner itself may
// give it another ttl; a child may only renew. A lease of which only the key
// around one is used keeps what it has, but lasts as long as what relies on it.
func (r *AcquireRequest) reuse(tx *store.Tx, name string) (until Expiry, err error) {
	ls, err := getLease(tx, name)
	if err != nil {
		return until, err
	}
	l := ls.Value
	around := len(without(r.asked, l.Keys)) == len(r.asked)
	switch {
	case l.Owner == r.Owner && around:
		l.TTL = max(l.TTL, r.TTL.Seconds())
	case l.Owner == r.Owner:
		l.Call = r.call
		if l.Auto = without(l.Auto, r.asked); r.ttlGiven && !(r.TTL == Endless && l.Attached) {
			if r.TTL.Seconds() < l.TTL { // nobody who works under it is given less time
				if err := inUse(tx, ls, l.Keys); err != nil {
					return until, err
				}
			}
			l.TTL = r.TTL.Seconds()
		}
		if l.Left { // its owner wants it after all
			l.Group, l.Left = 0, false
			l.Process = r.Process
		}
		switch {
		case l.Attached || l.Group != 0:
		case l.endless():
			l.Process = host.Process{}
		case r.Process.PID != 0 || l.kept: // it lives with another process now, or if its own is dead, with none
			l.Process = r.Process
		}
	}
	window, err := touch(tx, name, l)
	return endsAfter(tx.Now(), window), err
}

// heldFor is how long a lease has been held, by the store's clock. Only max
// hold asks.
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

// Fence makes the transaction depend on the lock on key being at token: for
// everything that is written in the name of its holder.
func Fence(tx *store.Tx, key string, token int64) error { return FenceLease(tx, key, token, "") }

// FenceLease is Fence that also compares the lease, if one is named: another
// store may have the key at the same token.
func FenceLease(tx *store.Tx, key string, token int64, lease string) error {
	lk, err := getLock(tx, key)
	if err != nil {
		return err
	}
	return fenced(lk, key, token, 0, lease)
}

// fenced refuses a lock that is gone, or not the one that is meant: at this
// token, held by this lease, or granted no later than latest, which serves a
// holder of several keys that knows only the largest of their tokens.
func fenced(lk store.Entry[lockRecord], key string, token, latest int64, lease string) error {
	if lk.Exists() && (token == 0 || lk.Rev == token) && (latest == 0 || lk.Rev <= latest) && (lease == "" || lk.Value.Lease == lease) {
		return nil
	}
	return &LostError{Key: key, Token: max(token, latest), Owner: lk.Value.Owner, Now: lk.Rev}
}
