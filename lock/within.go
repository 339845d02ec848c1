package lock

import (
	"fmt"
	"slices"

	"github.com/tasklock/tasklock/fault"
	"github.com/tasklock/tasklock/store"
)

// A key may lie within another: a task within its section. Whoever takes the
// inner key takes the outer one with it, so that the two are never held by
// different owners at once:
//
//   - In the same lease, if nobody holds the outer key. It then leaves with
//     the last inner key.
//   - If the owner or a parent holds it already, the new lease uses that one,
//     and both records say so. The outer key cannot be given back while it is
//     used; if it is taken away, the leases that use it end in the same commit.
//
// The lease around is written only by those who may give it life. So it goes
// on naming leases that have ended, until the next one that uses it.

// InUseError: the key cannot be released while keys within it are held.
type InUseError struct {
	Key    string
	Inside []string // keys that are held within
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s: still in use by %s", e.Key, e.Inside[0])
}

// surround adds the keys around those asked for.
func (r *AcquireRequest) surround(tx *store.Tx) error {
	if r.Keys = r.asked; r.Within == nil {
		return nil
	}
	keys, around := slices.Clone(r.asked), map[string]string{}
	for _, key := range r.asked {
		outer, err := r.Within(tx, key)
		if err != nil {
			return err
		}
		if fault.Bug("section_skew") && outer != "" { // looked at, and neither taken nor guarded
			held, err := tx.Scan(lockKind+outer, 1)
			if err != nil {
				return err
			}
			if len(held) == 0 {
				outer = ""
			}
		}
		if outer != "" {
			around[key] = outer
			keys = append(keys, outer)
		}
	}
	slices.Sort(keys)
	r.Keys, r.outer = slices.Compact(keys), around
	return checkCount(r.Keys)
}

// embed connects a new lease with the outer keys of what it takes.
func (r *AcquireRequest) embed(tx *store.Tx, l *leaseRecord, fresh []string) error {
	for _, key := range fresh {
		outer := r.outer[key]
		if outer == "" {
			continue
		}
		if l.Outer == nil {
			l.Outer = map[string]string{}
		}
		l.Outer[key] = outer
		lk, err := getLock(tx, outer)
		if err != nil {
			return err
		}
		around := lk.Value.Lease
		switch {
		case around == r.lease():
			if !slices.Contains(r.asked, outer) && !slices.Contains(l.Auto, outer) {
				l.Auto = append(l.Auto, outer)
			}
		case !slices.Contains(l.Uses, around):
			l.Uses = append(l.Uses, around)
			if err := usedBy(tx, around, r.lease()); err != nil {
				return err
			}
		}
	}
	return nil
}

// usedBy notes in a lease that another one relies on it, which is a sign of
// life too: only its owner or a child of it comes here.
func usedBy(tx *store.Tx, around, name string) error {
	ls, err := getLease(tx, around)
	if err != nil {
		return err
	}
	users, err := users(tx, ls)
	if err != nil {
		return err
	}
	ls.Value.UsedBy = append(slices.Clip(users), name)
	return refresh(tx, around, ls.Value)
}

// refresh rewrites a lease as a sign of life.
func refresh(tx *store.Tx, name string, l leaseRecord) error {
	held, err := heldFor(tx, l)
	if err != nil {
		return err
	}
	return putLease(tx, name, l, held)
}

// users returns the leases that rely on one. If the store has dropped its
// record, they are among those of its owner and the owner's children.
func users(tx *store.Tx, around store.Entry[leaseRecord]) ([]string, error) {
	name, names := around.Key[len(leaseKind):], around.Value.UsedBy
	if !around.Exists() {
		recs, err := tx.Scan(leaseKind+leaseOwner(name)+"/", 0)
		if err != nil {
			return nil, err
		}
		for _, rec := range recs {
			names = append(names, rec.Key[len(leaseKind):])
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

// within returns the keys that are held within outer once the lease around it
// has lost keys.
func within(tx *store.Tx, around store.Entry[leaseRecord], outer string, keys []string) ([]string, error) {
	names, err := users(tx, around)
	if err != nil {
		return nil, err
	}
	inside := around.Value.within(outer, keys)
	for _, name := range names {
		ls, err := peekLease(tx, name)
		if err != nil {
			return nil, err
		}
		more := ls.Value.within(outer, nil)
		if len(inside) == 0 && len(more) > 0 { // one is witness enough: the last two to leave must see each other
			if ls, err = getLease(tx, name); err != nil {
				return nil, err
			}
		}
		inside = append(inside, more...)
	}
	slices.Sort(inside)
	return inside, nil
}

func (l leaseRecord) within(outer string, keys []string) (inside []string) {
	for _, key := range without(l.Keys, keys) {
		if l.Outer[key] == outer {
			inside = append(inside, key)
		}
	}
	return inside
}

// inUse refuses to give back a key that others rely on.
func inUse(tx *store.Tx, ls store.Entry[leaseRecord], keys []string) error {
	for _, key := range keys {
		inside, err := within(tx, ls, key, keys)
		if err != nil {
			return err
		}
		if len(inside) > 0 {
			return &InUseError{Key: key, Inside: inside}
		}
	}
	return nil
}

// idle returns those of the lease's keys that were taken only as outer keys
// and around which nothing is left once keys are gone.
func idle(tx *store.Tx, ls store.Entry[leaseRecord], keys []string) ([]string, error) {
	var out []string
	for _, auto := range without(ls.Value.Auto, keys) {
		inside, err := within(tx, ls, auto, keys)
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

// without returns the lease as it is when keys are gone, and the leases that
// it does not use any more then.
func (l leaseRecord) without(tx *store.Tx, keys []string) (rest leaseRecord, left []string, err error) {
	rest = l
	rest.Keys, rest.Auto, rest.Uses, rest.Outer = without(l.Keys, keys), without(l.Auto, keys), nil, map[string]string{}
	for _, key := range rest.Keys {
		outer := l.Outer[key]
		if outer == "" {
			continue
		}
		rest.Outer[key] = outer
		lk, err := getLock(tx, outer)
		if err != nil {
			return rest, nil, err
		}
		if around := lk.Value.Lease; slices.Contains(l.Uses, around) && !slices.Contains(rest.Uses, around) {
			rest.Uses = append(rest.Uses, around)
		}
	}
	return rest, without(l.Uses, rest.Uses), nil
}

// leave ends the outer keys that were kept only for a lease that does not use
// them any more; of a lease that is over anyway, all.
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
			keys = ls.Value.Keys
		}
		if err := endKeys(tx, ls, keys, ending{event: "released"}); err != nil {
			return err
		}
	}
	return nil
}

// cascade ends the leases that rely on one that was taken away. If they are too
// many for this commit, they end before it.
func cascade(tx *store.Tx, around store.Entry[leaseRecord], names []string, how ending) error {
	if err := wantLeases(tx, names); err != nil {
		return err
	}
	need, users := 0, []victim(nil)
	for _, name := range names {
		ls, err := peekLease(tx, name)
		if err != nil {
			return err
		}
		need, users = need+cost(ls.Value), append(users, victim{lease: name})
	}
	if tx.Room() < need && len(users) > 0 {
		return &crowded{victims: users, how: how, still: endsToo(around)}
	}
	for _, name := range names {
		if err := endLease(tx, name, how); err != nil {
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
		now, err := getLease(tx, around.Key[len(leaseKind):])
		if inForce {
			return now.Exists(), err
		}
		return stateOf(now) != Held, err
	}
}
