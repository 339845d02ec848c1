package lease

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tasklock/tasklock/store"
)

// InUseError: the key cannot be released, or held for a shorter time, while
// somebody works under it.
type InUseError struct {
	Key    string
	Inside []string // inner keys that are held, or Key itself
	By     []string // the owners who use it
}

func (e *InUseError) Error() string {
	by := e.Inside[0]
	if by == e.Key && len(e.By) > 0 {
		by = e.By[0]
	}
	return fmt.Sprintf("%s: still in use by %s", e.Key, by)
}

// A use is one reason why a key stays.
type use struct {
	key   string // within the key, or the key itself
	owner string
	lease string
	state State
}

// uses returns who would rely on a key of a lease that has lost keys.
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
		if len(out) == 0 && len(inside) > 0 { // one is enough: the last two to leave must see each other
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

// inUse refuses to end a key that others rely on.
func inUse(tx *store.Tx, ls store.Entry[leaseRecord], keys []string) error {
	return inUseBut(tx, ls, keys, "")
}

// inUseBut is inUse for an owner that may be one of the users, or work for one.
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

// releaseUnused ends the part of a lease that nobody works under. The rest is
// released with its last user.
func releaseUnused(tx *store.Tx, ls store.Entry[leaseRecord], how ending) (left []string, err error) {
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

// leave ties a lease without a process to one of its users, so that it ends with
// the last of them: see keptBy.
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
