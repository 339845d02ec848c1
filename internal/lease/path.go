package lease

import (
	"context"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A path lock keeps others out of every path that overlaps its own, so here, and
// only here, the absence of records matters: nobody may add an overlapping lock
// between our read and our commit. So path locks are a kind of their own, and a
// grant guards the whole kind. Only grants and ends write it; heartbeats write the
// lease.
//
// Waiting is fair across overlapping paths: a request waits behind older tickets
// for them, except those that wait for a path of the requester's own and could
// never be served first.

const (
	pathKind  = "path/"
	pathQueue = queueKind + string(Path) + ":"
)

// recordOf is where the lock on a key is kept.
func recordOf(key string) string {
	if kind, name := KindOf(key); kind == Path {
		return pathKind + name
	}
	return lockKind + key
}

func isPath(key string) bool { return strings.HasPrefix(key, string(Path)+":") }

// overlapping returns the path locks, other than its own, that overlap a key.
func overlapping(tx *store.Tx, key string) ([]store.Entry[lockRecord], error) {
	asked, err := globOf(key)
	if err != nil || asked == nil {
		return nil, err
	}
	return touching(tx, asked, key)
}

// globOf is the glob of a key; none if it is not that of a path.
func globOf(key string) ([]Glob, error) {
	kind, name := KindOf(key)
	if kind != Path {
		return nil, nil
	}
	g, err := ParseGlob(name)
	return []Glob{g}, err
}

// touching returns the path locks that overlap any of the globs, except key. They
// may be many and have no guard: a grant guards the whole kind.
func touching(tx *store.Tx, globs []Glob, key string) ([]store.Entry[lockRecord], error) {
	names, err := overlaps(tx, pathKind, globs)
	if err != nil {
		return nil, err
	}
	if err := tx.Want(Prefixed(pathKind, names)...); err != nil {
		return nil, err
	}
	var found []store.Entry[lockRecord]
	for _, name := range names {
		if key == Path.Key(name) {
			continue
		}
		lk, err := store.Peek[lockRecord](tx, pathKind+name)
		if err != nil {
			return nil, err
		}
		if lk.Exists() {
			found = append(found, lk)
		}
	}
	return found, nil
}

// overlaps returns the names below a prefix that overlap any of the globs. An
// unreadable name is damage: it may overlap.
func overlaps(tx *store.Tx, prefix string, globs []Glob) (names []string, err error) {
	recs, err := tx.Scan(prefix, 0)
	if err != nil {
		return nil, err
	}
	for _, rec := range recs {
		name := rec.Key[len(prefix):]
		there, err := ParseGlob(name)
		if err != nil {
			return nil, &store.RecordError{Key: rec.Key, Err: err}
		}
		if slices.ContainsFunc(globs, there.Overlaps) {
			names = append(names, name)
		}
	}
	return names, nil
}

// rivals looks at the locks of others that overlap a key, or are older locks on
// a name of its task: live ones block it, the others are taken over, because their
// owners could still renew them. An owner that already has the key does not queue
// for it.
func (a *acquisition) rivals(tx *store.Tx, key string, queued bool) (blockers []blocker, victims []victim, err error) {
	locks, err := overlapping(tx, key)
	if err != nil {
		return nil, nil, err
	}
	older, err := bearer{ID: key, Older: a.older[key]}.locks(tx)
	if err != nil {
		return nil, nil, err
	}
	locks = append(locks, older...)
	if err := wantHolders(tx, locks); err != nil {
		return nil, nil, err
	}
	for _, lk := range locks {
		if MayUse(a.req.Owner, lk.Value.Owner) { // others may work under it
			others, over, err := a.usersOf(tx, key, lk, false)
			if err != nil {
				return nil, nil, err
			}
			blockers, victims = append(blockers, others...), append(victims, over...)
			continue
		}
		ls, err := peekLease(tx, lk.Value.Lease)
		if err != nil {
			return nil, nil, err
		}
		if state := stateOf(ls); state != Held || a.req.Force {
			victims = append(victims, victim{lease: lk.Value.Lease, key: lk.Value.Key, owner: lk.Value.Owner, why: endsFor(state)})
			continue
		}
		if len(blockers) > 0 || !queued {
			blockers = append(blockers, *heldBy(key, lk, ls))
			continue
		}
		b, err := a.blockedByHolder(tx, key, lk, ls)
		if err != nil || b.queued { // the ticket ahead waits for the others too
			return []blocker{*b}, nil, err
		}
		blockers = append(blockers, *b)
	}
	return blockers, victims, nil
}

// guardPaths makes a grant depend on all path locks being unchanged.
func guardPaths(tx *store.Tx, keys []string) {
	if slices.ContainsFunc(keys, isPath) {
		tx.GuardKind(pathKind)
	}
}

// ticketsFor returns the live tickets in the queues of paths that overlap a key
// and are ahead of an owner with the ticket me, or without one; the youngest is
// the last.
func ticketsFor(tx *store.Tx, key, owner, me string) ([]store.Entry[leaseRecord], error) {
	asked, err := globOf(key)
	if err != nil || asked == nil {
		return nil, err
	}
	names, err := overlaps(tx, pathQueue, asked)
	if err != nil {
		return nil, err
	}
	mine, err := peekLease(tx, me)
	if err != nil {
		return nil, err
	}
	if err := tx.Want(Prefixed(pathQueue, names)...); err != nil {
		return nil, err
	}
	var ahead []store.Entry[leaseRecord]
	for _, other := range names {
		if Path.Key(other) == key {
			continue
		}
		found, err := queuedAhead(tx, Path.Key(other), owner, mine)
		if err != nil {
			return nil, err
		}
		ahead = append(ahead, found...)
	}
	slices.SortFunc(ahead, func(a, b store.Entry[leaseRecord]) int {
		if younger(b, a) {
			return -1
		}
		return 1
	})
	return slices.CompactFunc(ahead, func(a, b store.Entry[leaseRecord]) bool { return a.Key == b.Key }), nil
}

// queuedAhead returns the first live tickets of one queue that are older than
// mine and that the owner cannot overtake.
func queuedAhead(tx *store.Tx, key, owner string, mine store.Entry[leaseRecord]) (ahead []store.Entry[leaseRecord], err error) {
	q, err := store.Peek[queueRecord](tx, queueKind+key)
	if err != nil {
		return nil, err
	}
	for chunk := range slices.Chunk(q.Value.Tickets, 16) {
		tickets, err := readLeases(tx, chunk, peekLease)
		if err != nil {
			return nil, err
		}
		for _, t := range tickets {
			if t.Key == mine.Key || !slices.Contains(t.Value.WaitsFor, key) || stateOf(t) != Held || MayUse(owner, t.Value.Owner) ||
				mine.Value.ticket() && !younger(mine, t) {
				continue
			}
			over, err := overtakes(tx, owner, t.Value)
			if err != nil {
				return nil, err
			}
			if !over {
				ahead = append(ahead, t)
			}
		}
		if len(ahead) > 0 { // later tickets wait for these too
			break
		}
	}
	return ahead, nil
}

// TouchingRequest asks whose path locks somebody would touch.
type TouchingRequest struct {
	Owners []string // who is about to touch them, under all its names: its own locks do not count
	Places []Glob
}

// Touching returns the locks of others in force that cover any of the places. What
// a server holds for the caller counts as its own.
func Touching(ctx context.Context, st *store.Store, r TouchingRequest) ([]Info, error) {
	var out []Info
	err := st.View(ctx, driver.Query{Ranges: []driver.Range{{Prefix: pathKind}}}, func(tx *store.Tx) error {
		locks, err := touching(tx, r.Places, "")
		if err != nil {
			return err
		}
		locks = slices.DeleteFunc(locks, func(lk store.Entry[lockRecord]) bool {
			return slices.ContainsFunc(r.Owners, func(o string) bool { return holdsFor(lk.Value.Owner, o) })
		})
		out, err = inForce(tx, keysOf(locks))
		return err
	})
	return out, err
}

// lookAround is [Look] for a key that nobody holds under that name: it returns a
// lock in force on an overlapping path, or on an older name of the task, else
// exact. A lock of the given owner counts only if it covers the whole key.
func lookAround(tx *store.Tx, key, owner string, exact *Info) (*Info, error) {
	locks, err := rivalsOf(tx, key)
	if err != nil {
		return nil, err
	}
	held, err := inForce(tx, keysOf(locks))
	for i, info := range held {
		switch {
		case owner == "" || !holdsFor(info.Owner, owner):
			exact = &held[i]
		case !isPath(key) || covers(info.Key, key):
			return &held[i], nil
		}
	}
	return exact, err
}

// covers reports whether one path key covers all of another.
func covers(outer, inner string) bool {
	_, o := KindOf(outer)
	_, i := KindOf(inner)
	a, errA := ParseGlob(o)
	b, errB := ParseGlob(i)
	return errA == nil && errB == nil && a.covers(b)
}

func keysOf(locks []store.Entry[lockRecord]) (keys []string) {
	for _, lk := range locks {
		keys = append(keys, lk.Value.Key)
	}
	return keys
}
