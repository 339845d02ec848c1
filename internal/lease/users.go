package lease

import (
	"slices"

	"github.com/tasklock/tasklock/store"
)

// A lease may rely on a key of another one, which belongs to its owner or a
// parent: it is a user of that lease. There are two ways:
//
//   - It uses the key itself: an attached holder, such as run, inside another
//     that already has it. Those that use one key, or overlapping paths, exclude
//     each other, except that nobody waits for a parent. They wait only for each
//     other, not in the queue of the key, which is for owners without the key.
//   - It holds an inner key: see outer.go. Any number may do that at once.
//
// In both cases the user is a lease of its own, with a ttl and a process, and both
// records name each other. While a user is in force the other lease can neither be
// released nor made shorter; each heartbeat of the user also renews what it uses,
// and no user lasts longer than that. If the key is taken away, its users end in
// the same commit.
//
// Only those who may renew the used lease write it. So it goes on naming users
// that have ended, until the next one comes.

// using returns the requested keys that others hold for the caller.
func (a *acquisition) using(tx *store.Tx) (keys []string, err error) {
	if !a.user {
		return nil, nil
	}
	for _, key := range a.asked {
		if isPool(key) {
			continue // its slots are in asked too
		}
		lk, err := getLock(tx, key)
		if err != nil {
			return nil, err
		}
		if lk.Exists() && lk.Rev != store.Pending && lk.Value.Lease != a.lease() {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// enter makes a new lease a user of the leases that hold the keys.
func (a *acquisition) enter(tx *store.Tx, l *leaseRecord, using []string) error {
	for _, key := range using {
		lk, err := getLock(tx, key)
		if err != nil {
			return err
		}
		if err := usedBy(tx, lk.Value.Lease, a.lease(), true); err != nil {
			return err
		}
		if !slices.Contains(l.Uses, lk.Value.Lease) {
			l.Uses = append(l.Uses, lk.Value.Lease)
		}
	}
	return nil
}

// usedBy notes in a lease that another one relies on it, and forgets those that
// are gone. It counts as a heartbeat: only its owner or a child comes here.
func usedBy(tx *store.Tx, around, name string, direct bool) error {
	ls, err := getLease(tx, around)
	if err != nil {
		return err
	}
	l := ls.Value
	if err := tx.Want(leaseKeys(l.UsedBy)...); err != nil {
		return err
	}
	var gone []string
	for _, user := range l.UsedBy {
		rev, err := tx.RevOf(leaseKind + user)
		if err != nil {
			return err
		}
		if rev == 0 && user != name {
			gone = append(gone, user)
		}
	}
	l.UsedBy, l.Direct = Without(l.UsedBy, gone), Without(l.Direct, gone)
	if !slices.Contains(l.UsedBy, name) {
		l.UsedBy = append(l.UsedBy, name)
	}
	if direct && !slices.Contains(l.Direct, name) {
		l.Direct = append(l.Direct, name)
	}
	return refresh(tx, around, l)
}

// besides looks for others that work under a lock that the request would use:
// those in force block it, the others are taken over, because they could come back.
func (a *acquisition) besides(tx *store.Tx, key string, lk store.Entry[lockRecord]) (blockers []blocker, victims []victim, err error) {
	if !a.user {
		return nil, nil, nil
	}
	asked := slices.Contains(a.asked, queueOf(key))
	if blockers, victims, err = a.usersOf(tx, key, lk, asked); err != nil || !asked {
		return blockers, victims, err
	}
	around, over, err := a.rivals(tx, key, false)
	return append(blockers, around...), append(victims, over...), err
}

// usersOf looks at the users of one lock that are not parents of the request's
// owner: those that use the key, and with all also those with an inner key.
func (a *acquisition) usersOf(tx *store.Tx, key string, lk store.Entry[lockRecord], all bool) (blockers []blocker, victims []victim, err error) {
	users, err := workingUnder(tx, lk, all, a.req.Owner, a.lease())
	for _, u := range users {
		name, v := leaseName(u.Key), u.Value
		if state := stateOf(u); state != Held || a.req.Force {
			victims = append(victims, victim{lease: name, key: lk.Value.Key, owner: v.Owner, why: endsFor(state)})
			continue
		}
		b := heldBy(key, lk, u)
		b.held.Owner, b.held.LeaseID, b.held.AcquiredAt = v.Owner, name, v.Since
		blockers = append(blockers, *b)
	}
	return blockers, victims, err
}

// workingUnder returns the leases that use a lock, with all also those with an
// inner key, except me and those that the owner may use itself.
func workingUnder(tx *store.Tx, lk store.Entry[lockRecord], all bool, owner, me string) (out []store.Entry[leaseRecord], err error) {
	ls, err := getLease(tx, lk.Value.Lease)
	if err != nil {
		return nil, err
	}
	names := ls.Value.Direct
	if all {
		names = ls.Value.UsedBy
	}
	found, err := readLeases(tx, names, peekLease) // a user that comes back writes the lease that it uses
	for i, u := range found {
		inside := slices.Contains(u.Value.Using, lk.Value.Key) || all && len(u.Value.innerKeys(lk.Value.Key, nil)) > 0
		if names[i] != me && inside && !MayUse(owner, u.Value.Owner) {
			out = append(out, u)
		}
	}
	return out, err
}

// users returns the leases that rely on one. If its record is gone, they are
// among those of its owner and the owner's children.
func users(tx *store.Tx, around store.Entry[leaseRecord]) ([]string, error) {
	name, names := leaseName(around.Key), around.Value.UsedBy
	if !around.Exists() {
		recs, err := tx.Scan(leaseKind+leaseOwner(name)+"/", 0)
		if err != nil {
			return nil, err
		}
		for _, rec := range recs {
			names = append(names, leaseName(rec.Key))
		}
	}
	leases, err := readLeases(tx, names, peekLease) // not guarded: a new user, or a renewal, writes the lease
	var out []string
	for i, ls := range leases {
		if slices.Contains(ls.Value.Uses, name) {
			out = append(out, names[i])
		}
	}
	return out, err
}
