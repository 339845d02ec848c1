package lease

import (
	"context"
	"maps"
	"slices"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// The transaction that acts on a name decides which key it means: see taskname.go.

// bearerOf returns the task that a key means, or the pool of a section. A key that
// no task bears as a name means itself.
func bearerOf(tx *store.Tx, key string) (bearer, error) {
	kind, name := KindOf(key)
	if kind == Section {
		p, err := getPool(tx, SectionPool(name))
		if p.Exists() {
			key = SectionPool(name)
		}
		return bearer{ID: key}, err
	}
	if kind != Task {
		return bearer{ID: key}, nil
	}
	e, err := getName(tx, key)
	if err != nil || !e.Exists() {
		return bearer{ID: key}, err
	}
	return e.Value.of(key)
}

// resolve finds the requested keys, and the older locks under which each may be
// held.
func (a *acquisition) resolve(tx *store.Tx) error {
	if err := tx.Want(nameKeys(a.req.Keys)...); err != nil {
		return err
	}
	a.names, a.older = map[string]string{}, map[string]map[string]string{}
	var keys []string
	for _, name := range a.req.Keys {
		b, err := bearerOf(tx, name)
		if err != nil {
			return err
		}
		key := b.ID
		if !a.req.Exact {
			if key, err = a.underOlder(tx, b); err != nil {
				return err
			}
		}
		if keys = append(keys, key); key != name {
			a.names[key] = name
		}
		a.older[key] = b.Older
	}
	slices.Sort(keys)
	a.asked = slices.Compact(keys)
	return nil
}

// underOlder is the key under which the owner already holds a task: one that it
// locked before the task had that name. It keeps everybody else out.
func (a *acquisition) underOlder(tx *store.Tx, b bearer) (string, error) {
	locks, err := b.locks(tx)
	if err != nil {
		return "", err
	}
	for _, lk := range locks {
		ls, err := getLease(tx, lk.Value.Lease)
		if err != nil {
			return "", err
		}
		again, err := a.again(tx, lk, ls, stateOf(ls))
		if err != nil {
			return "", err
		}
		if again {
			own, err := getLock(tx, b.ID)
			if err != nil || own.Exists() { // a child of that owner holds the task itself
				return b.ID, err
			}
			return lk.Value.Key, nil
		}
	}
	return b.ID, nil
}

// locks returns the older locks on names of the task that still exist.
func (b bearer) locks(tx *store.Tx) (out []store.Entry[lockRecord], err error) {
	names := slices.Sorted(maps.Keys(b.Older))
	locks, err := getLocks(tx, names)
	for i, lk := range locks {
		if lease := b.Older[names[i]]; lk.Exists() && (lease == "" || lk.Value.Lease == lease) {
			out = append(out, lk)
		}
	}
	return out, err
}

// rivalsOf returns the locks other than its own that keep others out of a key:
// overlapping paths, and older locks on the names of a task.
func rivalsOf(tx *store.Tx, key string) ([]store.Entry[lockRecord], error) {
	if kind, _ := KindOf(key); kind != Task {
		return overlapping(tx, key)
	}
	e, err := getName(tx, key)
	if err != nil {
		return nil, err
	}
	if i := e.Value.has(key); i >= 0 {
		return e.Value.Tasks[i].locks(tx)
	}
	return nil, nil
}

// meant returns the keys that names mean to a caller that asks about existing
// locks: the lock of that exact name first, else that of the task.
func meant(tx *store.Tx, names []string) ([]string, error) {
	if err := tx.Want(needMeant(names)...); err != nil {
		return nil, err
	}
	var keys []string
	for _, name := range names {
		key, err := meantBy(tx, name)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

func meantBy(tx *store.Tx, name string) (string, error) {
	lk, err := getLock(tx, name)
	if err != nil || lk.Exists() {
		return name, err
	}
	b, err := bearerOf(tx, name)
	return b.ID, err
}

// WithTasks returns the names together with the ids of the tasks that have them
// now: for reading the events of all of them.
func WithTasks(ctx context.Context, st *store.Store, names []string) (keys []string, err error) {
	err = st.View(ctx, driver.Query{Keys: nameKeys(names)}, func(tx *store.Tx) error {
		keys = slices.Clone(names)
		for _, name := range names {
			b, err := bearerOf(tx, name)
			if err != nil {
				return err
			}
			keys = append(keys, b.ID)
		}
		return nil
	})
	return keys, err
}

// needMeant names the records that meant begins with.
func needMeant(names []string) []string {
	return append(lockKeys(names), nameKeys(names)...)
}

// nameKeys names the records in which the keys are looked up.
func nameKeys(names []string) (keys []string) {
	for _, n := range names {
		switch kind, name := KindOf(n); kind {
		case Task:
			keys = append(keys, nameKind+n)
		case Section:
			keys = append(keys, poolRecordOf(SectionPool(name)))
		}
	}
	return keys
}
