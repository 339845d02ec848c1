package lease

import (
	"slices"

	"github.com/tasklock/tasklock/store"
)

// A key may lie within another: a task within its section. An owner that acquires
// the inner key acquires the outer one with it, so that two owners never hold them
// at once:
//
//   - In the same lease, if nobody holds the outer key. It is then released with
//     the last inner key.
//   - If the owner or a parent holds it already, the new lease uses that one:
//     see users.go.

// addOuterKeys adds the outer keys of the requested ones.
func (a *acquisition) addOuterKeys(tx *store.Tx) error {
	if a.keys = a.asked; a.req.OuterKey == nil {
		return nil
	}
	keys, around := slices.Clone(a.asked), map[string]string{}
	for _, key := range a.asked {
		outer, err := a.req.OuterKey(tx, key)
		if err != nil {
			return err
		}
		if outer != "" {
			around[key] = outer
			keys = append(keys, outer)
		}
	}
	slices.Sort(keys)
	a.keys, a.outer = slices.Compact(keys), around
	return checkCount(a.keys)
}

// linkOuterKeys links a new lease to the outer keys of its keys.
func (a *acquisition) linkOuterKeys(tx *store.Tx, l *leaseRecord) error {
	for _, key := range a.taken {
		outer := a.outer[key]
		if outer == "" {
			continue
		}
		if l.OuterKeys == nil {
			l.OuterKeys = map[string]string{}
		}
		l.OuterKeys[key] = outer
		lk, err := getLock(tx, outer)
		if err != nil {
			return err
		}
		around := lk.Value.Lease
		switch {
		case around == a.lease():
			if !slices.Contains(a.asked, outer) && !slices.Contains(l.Auto, outer) {
				l.Auto = append(l.Auto, outer)
			}
		case !slices.Contains(l.Uses, around):
			l.Uses = append(l.Uses, around)
			if err := usedBy(tx, around, a.lease(), false); err != nil {
				return err
			}
		}
	}
	return nil
}

// innerKeys returns the keys of the lease that lie within outer, without keys.
func (l leaseRecord) innerKeys(outer string, keys []string) (inside []string) {
	for _, key := range Without(l.Keys, keys) {
		if l.OuterKeys[key] == outer {
			inside = append(inside, key)
		}
	}
	return inside
}

// idle returns the keys of the lease that were acquired only as outer keys and
// have no inner key once keys are gone.
func idle(tx *store.Tx, ls store.Entry[leaseRecord], keys []string) ([]string, error) {
	var out []string
	for _, auto := range Without(ls.Value.Auto, keys) {
		inside, err := uses(tx, ls, auto, keys)
		if err != nil {
			return nil, err
		}
		if len(inside) == 0 {
			out = append(out, auto)
		}
	}
	return out, nil
}

// innerFirst puts the leases that use others before those that are used.
func innerFirst(tx *store.Tx, names []string) ([]string, error) {
	if len(names) < 2 {
		return names, nil
	}
	var order []string
	seen := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		if seen[name] || !slices.Contains(names, name) {
			return nil
		}
		seen[name] = true
		ls, err := getLease(tx, name)
		if err != nil {
			return err
		}
		for _, user := range ls.Value.UsedBy {
			if err := visit(user); err != nil {
				return err
			}
		}
		order = append(order, name)
		return nil
	}
	for _, name := range names {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// without returns the lease without keys, and the leases of which it then uses
// less.
func (l leaseRecord) without(tx *store.Tx, keys []string) (rest leaseRecord, left []string, err error) {
	rest = l
	rest.Keys, rest.Auto, rest.Using = Without(l.Keys, keys), Without(l.Auto, keys), Without(l.Using, keys)
	rest.Uses, rest.OuterKeys, rest.PutsBack = nil, map[string]string{}, map[string]string{}
	for _, key := range rest.Keys {
		if entry := l.PutsBack[key]; entry != "" {
			rest.PutsBack[key] = entry
		}
		if outer := l.OuterKeys[key]; outer != "" {
			rest.OuterKeys[key] = outer
		}
	}
	for _, key := range rest.needs() {
		lk, err := getLock(tx, key)
		if err != nil {
			return rest, nil, err
		}
		if around := lk.Value.Lease; slices.Contains(l.Uses, around) && !slices.Contains(rest.Uses, around) {
			rest.Uses = append(rest.Uses, around)
		}
	}
	if len(rest.needs()) < len(l.needs()) { // one that it goes on using may have kept a key for it too
		return rest, l.Uses, nil
	}
	return rest, Without(l.Uses, rest.Uses), nil
}

// leave ends the keys that were kept only for a lease that no longer uses them; of
// a lease that is over anyway, all.
func leave(tx *store.Tx, around []string) error {
	for _, name := range around {
		ls, err := getLease(tx, name)
		if err != nil {
			return err
		}
		keys, err := idle(tx, ls, nil)
		if err != nil {
			return err
		}
		if len(keys) > 0 && stateOf(ls) != Held {
			keys = ls.Value.all()
		}
		if err := endKeys(tx, ls, keys, ending{event: "released"}); err != nil {
			return err
		}
	}
	return nil
}
