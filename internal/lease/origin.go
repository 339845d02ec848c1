package lease

import (
	"context"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
)

// Origin is where a lock was held before it was taken over from another system.
// Its process belongs to an unknown host: its number is shown, and proves neither
// life nor death.
type Origin struct {
	Host  string
	PID   int
	Since time.Time // zero: unknown

	// Aliases are further names of the one key of the request. A request for one
	// of them gets the key. An alias that is already a name or a locked key stays
	// what it is.
	Aliases []string
}

// AcquireFrom is [Acquire] of what another system held before.
func AcquireFrom(ctx context.Context, st *store.Store, r AcquireRequest, from Origin) (Grant, error) {
	return acquire(ctx, st, r, &from)
}

// where sets the machine and the process of a lease: ours, or the original ones.
func (a *acquisition) where(l *leaseRecord, p host.Process) {
	l.Host, l.Process, l.Group = host.Name(), p, a.req.Group
	if a.req.Remote {
		l.Host = ""
	}
	if a.origin != nil {
		l.Host, l.Process, l.Group = a.origin.Host, host.Process{PID: a.origin.PID}, 0
	}
}

// since is when the lock was acquired: now, or in the other system.
func (a *acquisition) since(now time.Time) time.Time {
	if a.origin == nil || a.origin.Since.IsZero() || a.origin.Since.After(now) {
		return now
	}
	return a.origin.Since.UTC()
}

// checkOrigin says which rule the names break.
func (a *acquisition) checkOrigin() error {
	if len(a.req.Keys) != 1 && len(a.origin.Aliases) > 0 {
		return &InvalidError{What: "aliases", Rule: "go with one key"}
	}
	for _, name := range a.origin.Aliases {
		if key, err := CheckKey(name); err != nil || key != name {
			return &InvalidError{What: "alias " + quote(name), Rule: "must be a key"}
		}
	}
	return checkText("host", a.origin.Host)
}

// putAliases writes the further names of a key, in the commit that grants it.
func (a *acquisition) putAliases(tx *store.Tx, key string) error {
	if a.origin == nil {
		return nil
	}
	names := Without(a.origin.Aliases, []string{key})
	if err := tx.Want(needMeant(names)...); err != nil {
		return err
	}
	for _, name := range names {
		e, err := getName(tx, name)
		if err != nil {
			return err
		}
		lk, err := getLock(tx, name)
		if err != nil {
			return err
		}
		if e.Exists() || lk.Exists() {
			continue
		}
		if err := tx.Put(nameKind+name, nameRecord{Tasks: []bearer{{ID: key, Key: true}}}); err != nil {
			return err
		}
	}
	return nil
}

// aliased returns the keys that had the id of a new task as an alias, so that the
// task gets their names too.
func aliased(tx *store.Tx, id string) ([]string, error) {
	e, err := getName(tx, id)
	if err != nil {
		return nil, nil //nolint:nilerr // damaged: it hinders who asks for that name, and nobody else
	}
	var keys []string
	for _, b := range e.Value.Tasks {
		if b.Key && b.ID != id && !slices.Contains(keys, b.ID) {
			keys = append(keys, b.ID)
		}
	}
	return keys, nil
}
