package lock

import (
	"fmt"
	"slices"

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

// InUseError: the key cannot be released while keys within it are held.
type InUseError struct {
	Key    string
	Inside []string // leases or keys that are held within
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s: still in use by %s", e.Key, e.Inside[0])
}

// surround adds the keys around those asked for.
func (r *AcquireRequest) surround(tx *store.Tx) error {
	if r.Within == nil {
		return nil
	}
	r.Keys, r.outer = slices.Clone(r.asked), nil
	for _, key := range r.asked {
		outer, err := r.Within(tx, key)
		if err != nil {
			return err
		}
		if outer == "" {
			continue
		}
		if r.outer == nil {
			r.outer = map[string]string{}
		}
		r.outer[key] = outer
		r.Keys = append(r.Keys, outer)
	}
	slices.Sort(r.Keys)
	r.Keys = slices.Compact(r.Keys)
	return nil
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
		if lk.Value.Lease == r.lease() {
			if !slices.Contains(r.asked, outer) && !slices.Contains(l.Auto, outer) {
				l.Auto = append(l.Auto, outer)
			}
			continue
		}
		if slices.Contains(l.Uses, lk.Value.Lease) {
			continue
		}
		l.Uses = append(l.Uses, lk.Value.Lease)
		if err := changeLease(tx, lk.Value.Lease, func(around *leaseRecord) {
			around.UsedBy = append(slices.Clip(around.UsedBy), r.lease())
		}); err != nil {
			return err
		}
	}
	return nil
}

// changeLease rewrites a lease, which is a sign of life too: only its owner or
// a child of it comes here.
func changeLease(tx *store.Tx, name string, change func(*leaseRecord)) error {
	ls, err := getLease(tx, name)
	if err != nil || !ls.Exists() {
		return err
	}
	l := ls.Value
	change(&l)
	held, err := heldFor(tx, l)
	if err != nil {
		return err
	}
	return putLease(tx, name, l, held)
}

// inUse refuses to give back a key that others rely on.
func (l leaseRecord) inUse(keys []string) error {
	for _, key := range keys {
		for inner, outer := range l.Outer {
			if outer == key && slices.Contains(l.Keys, inner) && !slices.Contains(keys, inner) {
				return &InUseError{Key: key, Inside: []string{inner}}
			}
		}
		if kind, _ := KindOf(key); kind == Section && len(l.UsedBy) > 0 {
			return &InUseError{Key: key, Inside: l.UsedBy}
		}
	}
	return nil
}

// innerFirst puts the leases that use others before those that are used.
func innerFirst(tx *store.Tx, names []string) error {
	used := map[string]int{}
	for _, name := range names {
		ls, err := getLease(tx, name)
		if err != nil {
			return err
		}
		used[name] = len(ls.Value.UsedBy)
	}
	slices.SortStableFunc(names, func(a, b string) int { return used[a] - used[b] })
	return nil
}

// idle returns those of the lease's keys that were taken only as outer keys
// and around which nothing is left once keys are gone.
func (l leaseRecord) idle(keys []string) []string {
	if len(l.UsedBy) > 0 {
		return nil
	}
	var out []string
	for _, auto := range l.Auto {
		busy := slices.Contains(keys, auto)
		for inner, outer := range l.Outer {
			busy = busy || outer == auto && slices.Contains(l.Keys, inner) && !slices.Contains(keys, inner)
		}
		if !busy {
			out = append(out, auto)
		}
	}
	return out
}

// unlink tells the leases around one that has ended, and ends those that were
// kept for it alone.
func unlink(tx *store.Tx, name string, l leaseRecord) error {
	for _, around := range l.Uses {
		ls, err := getLease(tx, around)
		if err != nil {
			return err
		}
		if !ls.Exists() {
			continue
		}
		rest := without(ls.Value.UsedBy, []string{name})
		if err := changeLease(tx, around, func(l *leaseRecord) { l.UsedBy = rest }); err != nil {
			return err
		}
		ls.Value.UsedBy = rest
		if idle := ls.Value.idle(nil); len(idle) > 0 {
			if ls, err = getLease(tx, around); err != nil {
				return err
			}
			if err := endKeys(tx, ls, idle, ending{event: "released"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// cascade ends the leases that rely on one that was taken away.
func cascade(tx *store.Tx, l leaseRecord, how ending) error {
	for _, name := range l.UsedBy {
		ls, err := getLease(tx, name)
		if err != nil {
			return err
		}
		if !ls.Exists() {
			continue
		}
		if err := endKeys(tx, ls, ls.Value.Keys, how); err != nil {
			return err
		}
	}
	return nil
}
