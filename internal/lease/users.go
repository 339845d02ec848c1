package lease

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store"
)

// A lease may rely on a key that another one holds, which belongs to its owner
// or a parent: it is a user of that lease. There are two ways:
//
//   - It is using the very key: an attached holder, such as run, inside of
//     somebody who has it already. Those who are using one key, or paths that
//     overlap, exclude each other, except that nobody waits for a parent. They
//     wait for each other only, not in the queue of the key, which is for those
//     who have nothing.
//   - It holds a key within it: see outer.go. Any number may do that at once.
//
// Either way the user is a lease of its own, with a ttl and a process, and both
// records name each other. While a user is in force the other lease can neither
// be given back nor made shorter; each heartbeat of the user is one of what it
// uses, and none lasts longer than that. If the key is taken away, its users
// end in the same commit.
//
// The lease that is used is written only by those who may give it life. So it
// goes on naming users that have ended, until the next one comes.

// InUseError: the key cannot be given back, or be held for a shorter time,
// while somebody works under it.
type InUseError struct {
	Key    string
	Inside []string // keys that are held within, or Key itself
	By     []string // the owners who use it
}

func (e *InUseError) Error() string {
	by := e.Inside[0]
	if by == e.Key && len(e.By) > 0 {
		by = e.By[0]
	}
	return fmt.Sprintf("%s: still in use by %s", e.Key, by)
}

// using returns the keys that the request asks for and others hold for it.
func (a *acquisition) using(tx *store.Tx) (keys []string, err error) {
	if !a.user {
		return nil, nil
	}
	for _, key := range a.asked {
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

// enter makes a new lease a user of those that hold the keys.
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

// besides looks for others who work under a lock that the request would use:
// those in force are in the way, the rest is taken over, or could come back.
func (a *acquisition) besides(tx *store.Tx, key string, lk store.Entry[lockRecord]) (blockers []blocker, victims []victim, err error) {
	if !a.user {
		return nil, nil, nil
	}
	asked := slices.Contains(a.asked, key)
	if blockers, victims, err = a.usersOf(tx, key, lk, asked); err != nil || !asked {
		return blockers, victims, err
	}
	around, over, err := a.rivals(tx, key, false)
	return append(blockers, around...), append(victims, over...), err
}

// usersOf looks at the users of one lock who are no parents of the request's
// owner: those that are using it, and with all also those within it.
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

// workingUnder returns the leases that are using a lock, with all also those
// within it, except that of me and those that the owner may use itself.
func workingUnder(tx *store.Tx, lk store.Entry[lockRecord], all bool, owner, me string) (out []store.Entry[leaseRecord], err error) {
	ls, err := getLease(tx, lk.Value.Lease)
	if err != nil {
		return nil, err
	}
	names := ls.Value.Direct
	if all {
		names = ls.Value.UsedBy
	}
	if err := tx.Want(leaseKeys(names)...); err != nil {
		return nil, err
	}
	for _, name := range names {
		u, err := peekLease(tx, name) // one that comes back to life writes the lease that it uses
		if err != nil {
			return nil, err
		}
		inside := slices.Contains(u.Value.Using, lk.Value.Key) || all && len(u.Value.innerKeys(lk.Value.Key, nil)) > 0
		if name != me && inside && !MayUse(owner, u.Value.Owner) {
			out = append(out, u)
		}
	}
	return out, nil
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
	if err := tx.Want(leaseKeys(names)...); err != nil {
		return nil, err
	}
	var out []string
	for _, user := range names { // not guarded: whoever begins to use the lease, or renews for it, writes it
		ls, err := peekLease(tx, user)
		if err != nil {
			return nil, err
		}
		if slices.Contains(ls.Value.Uses, name) {
			out = append(out, user)
		}
	}
	return out, nil
}

// A use is one reason why a key stays.
type use struct {
	key   string // within the key, or the key itself
	owner string
	lease string
	state State
}

// uses returns who relies on a key of a lease once the lease has lost keys.
func uses(tx *store.Tx, ls store.Entry[leaseRecord], key string, keys []string) (out []use, err error) {
	name := leaseName(ls.Key)
	for _, inner := range ls.Value.innerKeys(key, keys) {
		out = append(out, use{inner, ls.Value.Owner, name, Held})
	}
	names, err := users(tx, ls)
	if err != nil {
		return nil, err
	}
	for _, user := range names {
		u, err := peekLease(tx, user)
		if err != nil {
			return nil, err
		}
		inside := u.Value.innerKeys(key, nil)
		if slices.Contains(u.Value.Using, key) {
			inside = append(inside, key)
		}
		if len(out) == 0 && len(inside) > 0 { // one is witness enough: the last two to leave must see each other
			if u, err = getLease(tx, user); err != nil {
				return nil, err
			}
		}
		for _, k := range inside {
			out = append(out, use{k, u.Value.Owner, user, stateOf(u)})
		}
	}
	slices.SortFunc(out, func(a, b use) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.owner, b.owner)) })
	return out, nil
}

// inUse refuses to take a key from those who rely on it.
func inUse(tx *store.Tx, ls store.Entry[leaseRecord], keys []string) error {
	return inUseBut(tx, ls, keys, "")
}

// inUseBut is inUse on behalf of an owner who may be one of the users, or work
// for one of them.
func inUseBut(tx *store.Tx, ls store.Entry[leaseRecord], keys []string, owner string) error {
	for _, key := range keys {
		all, err := uses(tx, ls, key, keys)
		if err != nil {
			return err
		}
		e := &InUseError{Key: key}
		for _, u := range all {
			if u.state == Held && (owner == "" || !MayUse(owner, u.owner)) {
				e.Inside, e.By = append(e.Inside, u.key), append(e.By, u.owner)
			}
		}
		if len(e.Inside) > 0 {
			return e
		}
	}
	return nil
}

// giveBack ends a lease as far as nobody works under it. What is in use leaves
// with its last user.
func giveBack(tx *store.Tx, ls store.Entry[leaseRecord], how ending) (left []string, err error) {
	l := ls.Value
	for _, key := range l.Keys {
		all, err := uses(tx, ls, key, l.Keys)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(u use) bool { return u.state == Held }) {
			left = append(left, key)
		}
	}
	if len(left) == 0 {
		return nil, endKeys(tx, ls, l.all(), how)
	}
	for _, key := range left {
		if outer := l.OuterKeys[key]; slices.Contains(l.Keys, outer) && !slices.Contains(left, outer) {
			left = append(left, outer)
		}
	}
	if l.Auto = append(l.Auto, Without(left, l.Auto)...); len(l.Auto) > len(ls.Value.Auto) {
		if err := l.leave(tx, ls); err != nil {
			return nil, err
		}
		if err := refresh(tx, leaseName(ls.Key), l); err != nil {
			return nil, err
		}
		if ls, err = getLease(tx, leaseName(ls.Key)); err != nil {
			return nil, err
		}
	}
	return left, endKeys(tx, ls, Without(l.all(), left), how)
}

// leave lets a lease that no process stands for live with one of its users, so
// that it dies with the last of them: see keptBy.
func (l *leaseRecord) leave(tx *store.Tx, ls store.Entry[leaseRecord]) error {
	if l.PID != 0 {
		return nil
	}
	names, err := users(tx, ls)
	if err != nil {
		return err
	}
	for _, name := range names {
		u, err := peekLease(tx, name)
		if err != nil {
			return err
		}
		if u.Value.PID != 0 && stateOf(u) == Held {
			l.Process, l.Group, l.Host, l.Left = u.Value.Process, u.Value.Group, u.Value.Host, true
			return nil
		}
	}
	return nil
}

// touch is a heartbeat for a lease and for all that it uses. It returns for
// how long the lease lasts: no longer than those.
func touch(tx *store.Tx, name string, l leaseRecord) (time.Duration, error) {
	window, err := sustain(tx, name, l)
	if err != nil {
		return 0, err
	}
	held, err := heldFor(tx, l)
	if err != nil {
		return 0, err
	}
	if l.window(held) == 0 {
		return 0, maxHoldOver(l.all()[0], 0, seconds(l.MaxHold))
	}
	l.TTL = min(l.TTL, window.Seconds())
	return l.window(held), putLease(tx, name, l, held)
}

// sustain touches what a lease uses, which must still be there and know of it,
// and returns for how long that lasts.
func sustain(tx *store.Tx, name string, l leaseRecord) (time.Duration, error) {
	window := l.ttl()
	for _, key := range l.needs() {
		lk, err := getLock(tx, key)
		if err != nil {
			return 0, err
		}
		around := lk.Value.Lease
		ls, err := getLease(tx, around)
		if err != nil {
			return 0, err
		}
		if !slices.Contains(l.Uses, around) || !slices.Contains(ls.Value.UsedBy, name) {
			return 0, &LostError{Key: key, Owner: lk.Value.Owner, Now: lk.Rev}
		}
		lasts, err := touch(tx, around, ls.Value)
		if err != nil {
			return 0, err
		}
		window = min(window, lasts)
	}
	return window, nil
}

// needs are the keys of other leases that this one relies on.
func (l leaseRecord) needs() []string {
	keys := slices.Clone(l.Using)
	for _, key := range l.Keys {
		if outer := l.OuterKeys[key]; outer != "" && !slices.Contains(l.Keys, outer) && !slices.Contains(keys, outer) {
			keys = append(keys, outer)
		}
	}
	return keys
}

// cascade ends the leases that rely on one that was taken away; with keys only
// those that rely on one of these. If they are too many for this commit, they
// end before it.
func cascade(tx *store.Tx, around store.Entry[leaseRecord], names, keys []string, how ending) error {
	if err := wantLeases(tx, names); err != nil {
		return err
	}
	need, users := 0, []victim(nil)
	for _, name := range names {
		ls, err := peekLease(tx, name)
		if err != nil {
			return err
		}
		if keys != nil && len(Without(ls.Value.needs(), keys)) == len(ls.Value.needs()) {
			continue
		}
		need, users = need+cost(ls.Value), append(users, victim{lease: name})
	}
	if tx.Room() < need && len(users) > 0 {
		return &crowded{victims: users, how: how, still: endsToo(around)}
	}
	for _, user := range users {
		if err := endLease(tx, user.lease, how); err != nil {
			return err
		}
	}
	return nil
}

// endsToo says, guarded by the lease around, whether that is still to end: it is
// there, if it was taken away in force, and else nobody gave it new life.
func endsToo(around store.Entry[leaseRecord]) func(*store.Tx, victim) (bool, error) {
	inForce := stateOf(around) == Held
	return func(tx *store.Tx, _ victim) (bool, error) {
		now, err := getLease(tx, leaseName(around.Key))
		if inForce {
			return now.Exists(), err
		}
		return stateOf(now) != Held, err
	}
}
