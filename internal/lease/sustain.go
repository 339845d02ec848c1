package lease

import (
	"errors"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store"
)

// A lease that relies on others renews them too, and ends with them.

// touch is a heartbeat for a lease and for all that it uses. It returns how long
// the lease lasts: no longer than those.
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

// sustain renews what a lease uses, which must still exist and know of it, and
// returns how long that lasts.
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
// those that rely on one of these. If they are too many for this commit, they end
// before it.
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

// endsToo says, guarded by the outer lease, whether that will still end: it exists,
// if it was taken away in force, and otherwise nobody has renewed it.
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

// refresh rewrites a lease as a heartbeat, also for what it uses. It lasts no
// longer than that: if that is over, so is this one.
func refresh(tx *store.Tx, name string, l leaseRecord) error {
	window, err := sustain(tx, name, l)
	if err != nil && !errors.Is(err, ErrLost) {
		return err
	}
	held, err := heldFor(tx, l)
	if err != nil {
		return err
	}
	l.TTL = min(l.TTL, window.Seconds())
	return putLease(tx, name, l, held)
}
