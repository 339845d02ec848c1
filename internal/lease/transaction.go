package lease

import (
	"maps"
	"slices"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Parts for the transactions of packages above, besides [Fence] and [Look]. Those
// packages decide who may; these carry it out.

// Locks returns all locks by key, guarding none.
func Locks(tx *store.Tx) (map[string]*Info, error) {
	out := map[string]*Info{}
	err := eachLock(tx, func(lk store.Entry[lockRecord], ls store.Entry[leaseRecord], q queueRecord) error {
		i := newInfo(lk, ls, q)
		out[lk.Value.Key] = &i
		return nil
	})
	return out, err
}

// NeedLook names the records that Look of these keys begins with.
func NeedLook(keys ...string) driver.Query {
	q := driver.Query{}
	for _, k := range keys {
		if isPool(k) {
			q.Keys = append(q.Keys, needPool(k)...)
			continue
		}
		q.Keys = append(q.Keys, recordOf(k), queueKind+queueOf(k))
	}
	return q
}

// NeedLease names the record of a lease, for a caller that knows before it looks which
// lease has a key.
func NeedLease(name string) string { return leaseKind + name }

// Holds reports whether a lease is in force and has the key. It guards nothing.
func Holds(tx *store.Tx, name, key string) (bool, error) {
	ls, err := peekLease(tx, name)
	return stateOf(ls) == Held && slices.Contains(ls.Value.Keys, key), err
}

// WantLook reads what Look of these keys needs in a few reads for all of them,
// instead of some for each.
func WantLook(tx *store.Tx, keys ...string) error { return wantInfo(tx, keys, getLock) }

// WantPeek is WantLook for [Peek].
func WantPeek(tx *store.Tx, keys ...string) error { return wantInfo(tx, keys, peekLock) }

func wantInfo(tx *store.Tx, keys []string, lockOf reading[lockRecord]) error {
	if err := tx.Want(NeedLook(keys...).Keys...); err != nil {
		return err
	}
	leases, err := leasesOf(tx, keys, lockOf)
	if err != nil {
		return err
	}
	return tx.Want(leaseKeys(leases)...)
}

// WantEnd is WantLook for keys that may be released or broken.
func WantEnd(tx *store.Tx, keys ...string) error {
	if err := WantLook(tx, keys...); err != nil {
		return err
	}
	leases, err := leasesOf(tx, keys, getLock)
	if err != nil {
		return err
	}
	var more []string
	for _, name := range leases {
		ls, err := store.Get[leaseRecord](tx, leaseKind+name)
		if err != nil {
			return err
		}
		more = append(more, lockKeys(ls.Value.Keys)...)
		more = append(more, leaseKeys(slices.Concat(ls.Value.Uses, ls.Value.UsedBy))...)
	}
	return tx.Want(more...)
}

func leasesOf(tx *store.Tx, keys []string, lockOf reading[lockRecord]) (names []string, err error) {
	for _, key := range keys {
		lk, err := lockOf(tx, key)
		if err != nil {
			return nil, err
		}
		if lk.Exists() {
			names = append(names, lk.Value.Lease)
		}
	}
	return names, nil
}

// RenewKey is a heartbeat of the lease that holds the key, by its owner or a child
// of it, and may set its worktree.
func RenewKey(tx *store.Tx, key, owner string, worktree *string) error {
	lk, err := getLock(tx, key)
	if err != nil || !lk.Exists() {
		return err
	}
	_, err = heartbeat{by: owner, worktree: worktree}.renew(tx, lk.Value.Lease)
	return err
}

// ReleaseKey releases one key, whoever holds it; its lease keeps the other keys,
// unless it was over: only its owner can renew it. A free key changes nothing.
// While others work under the key, only they can release it: [InUseError].
func ReleaseKey(tx *store.Tx, key, by, reason string) error {
	return releaseKey(tx, key, by, reason, false)
}

// ReleaseClaim is ReleaseKey for a caller that writes itself what becomes of the key: it
// does not write what [PutBack] asked for.
func ReleaseClaim(tx *store.Tx, key, by, reason string) error {
	return releaseKey(tx, key, by, reason, true)
}

func releaseKey(tx *store.Tx, key, by, reason string, done bool) error {
	lk, err := getLock(tx, key)
	if err != nil || !lk.Exists() {
		return err
	}
	ls, err := getLease(tx, lk.Value.Lease)
	if err != nil {
		return err
	}
	if done {
		ls.Value.PutsBack = maps.Clone(ls.Value.PutsBack)
		delete(ls.Value.PutsBack, key)
	}
	keys := []string{key}
	if err := inUseBut(tx, ls, keys, by); err != nil {
		return err
	}
	if stateOf(ls) != Held && !MayUse(by, lk.Value.Owner) {
		keys = append(keys, Without(ls.Value.all(), keys)...)
	}
	return endKeys(tx, ls, keys, ending{event: "released", by: by, reason: reason})
}

// BreakKeys ends the whole leases that hold the keys, if any: by force, or because
// they are over. If there are more than one commit can guard, the transaction must
// be one of [Update].
func BreakKeys(tx *store.Tx, keys []string, by, reason string, force bool) error {
	b := breaking{BreakRequest: BreakRequest{By: by, Reason: reason}, over: !force}
	return b.keys(tx, keys, &ReleaseResult{})
}

// Related reports whether one of two owners is the other, or a parent of it. A
// parent may renew and end what its children hold.
func Related(a, b string) bool { return MayUse(b, a) || MayUse(a, b) }

// Guard holds until the lock ends.
func (i Info) Guard() driver.Guard { return driver.Guard{Key: recordOf(i.Key), Rev: i.Token} }
