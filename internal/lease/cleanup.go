package lease

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// CleanupRequest frees locks that nobody can be working under.
type CleanupRequest struct {
	By     string        // who cleans up, for the audit
	Silent time.Duration // also break leases that had no heartbeat for this long; 0: only expired and dead ones
	DryRun bool

	// Progress, if set, is called after each step with how many of all records of
	// the kind under way were looked after.
	Progress func(done, all int)
}

// CleanupResult says what was freed.
type CleanupResult struct {
	Freed   []Info `json:"freed"`   // with the state for which they were freed
	Tickets int    `json:"tickets"` // waiters that never came back
	Pruned  int    `json:"pruned"`  // old records of history and requests
}

// Cleanup ends every lease that has expired or whose process is provably dead,
// drops abandoned tickets, and shortens the history. It finds them in one look and
// ends some in each commit, by compare-and-swap: one that is renewed meanwhile
// stays.
func Cleanup(ctx context.Context, st *store.Store, r CleanupRequest) (CleanupResult, error) {
	out := CleanupResult{Freed: []Info{}}
	if r.Silent < 0 {
		return out, &InvalidError{What: "silence " + r.Silent.String(), Rule: "must not be negative"}
	}
	var rests []*rest
	err := st.View(ctx, Everything, func(tx *store.Tx) (err error) {
		rests, err = r.look(tx)
		return err
	})
	if err != nil {
		return out, err
	}
	if err := r.clear(ctx, st, rests, &out); err != nil {
		return out, err
	}
	out.Pruned, err = r.prune(ctx, st)
	return out, err
}

// rest is something that nobody will use any more: a lease, a ticket, or the
// places in a queue whose tickets are gone.
type rest struct {
	name  string // of a lease or ticket
	locks []Info // of a lease
	queue string // the key of a queue,
	gone  []string
}

// keys are those of the locks that were found.
func (x *rest) keys() (keys []string) {
	for _, l := range x.locks {
		keys = append(keys, l.Key)
	}
	return keys
}

// look finds what is over.
func (r CleanupRequest) look(tx *store.Tx) (rests []*rest, err error) {
	byLease := map[string]*rest{}
	err = eachLock(tx, func(lk store.Entry[lockRecord], ls store.Entry[leaseRecord], q queueRecord) error {
		if !r.over(ls) {
			return nil
		}
		name := lk.Value.Lease
		x := byLease[name]
		if x == nil || !ls.Exists() && len(x.locks) >= MaxKeys { // each lock of a lease without a record needs a guard
			x = &rest{name: name}
			byLease[name], rests = x, append(rests, x)
		}
		x.locks = append(x.locks, newInfo(lk, ls, q))
		return nil
	})
	if err != nil {
		return nil, err
	}
	leases, err := scan[leaseRecord](tx, leaseKind)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(leases)) {
		if byLease[name] == nil && r.ends(leases[name]) {
			rests = append(rests, &rest{name: name})
		}
	}
	queues, err := scan[queueRecord](tx, queueKind)
	for _, key := range slices.Sorted(maps.Keys(queues)) {
		gone := slices.DeleteFunc(slices.Clone(queues[key].Value.Tickets), func(t string) bool { return leases[t].Exists() })
		if len(gone) > 0 {
			rests = append(rests, &rest{queue: key, gone: gone})
		}
	}
	return rests, err
}

// ends says whether to end a lease to which no lock leads: a user of what others
// hold that is over, or a waiter that did not come back in time.
func (r CleanupRequest) ends(ls store.Entry[leaseRecord]) bool {
	l := ls.Value
	if l.ticket() {
		return stateOf(ls) != Held && ls.Age-l.ttl() > placeKept
	}
	return len(l.Keys) == 0 && r.over(ls)
}

// over says whether to end a lease. A lease that never expires has no
// heartbeats, so its silence means nothing.
func (r CleanupRequest) over(ls store.Entry[leaseRecord]) bool {
	return stateOf(ls) != Held || r.Silent > 0 && ls.Age > r.Silent && !ls.Value.endless()
}

// clear ends what was found, some in each commit.
func (r CleanupRequest) clear(ctx context.Context, st *store.Store, rests []*rest, out *CleanupResult) error {
	const atOnce = 40
	for left := rests; len(left) > 0; {
		var freed []Info
		n, tickets := 0, 0
		some := left[:min(len(left), atOnce)]
		_, err := UpdateOrLook(ctx, st, r.DryRun, needRests(some), func(tx *store.Tx) error {
			n, freed, tickets = 0, nil, 0
			if err := wantRests(tx, some); err != nil {
				return err
			}
			for _, x := range some {
				if fits, err := x.fits(tx); err != nil || !fits && n > 0 {
					return err
				}
				locks, others, err := r.end(tx, x)
				if err != nil {
					return err
				}
				n, freed, tickets = n+1, append(freed, locks...), tickets+others
			}
			return nil
		})
		if err != nil {
			return err
		}
		out.Freed, out.Tickets, left = append(out.Freed, freed...), out.Tickets+tickets, left[n:]
		r.progress(len(rests)-len(left), len(rests))
	}
	return nil
}

func (r CleanupRequest) progress(done, all int) {
	if r.Progress != nil {
		r.Progress(done, all)
	}
}

// fits reports whether there is room for the guards of its end.
func (x *rest) fits(tx *store.Tx) (bool, error) {
	if x.queue != "" {
		return roomToDrop(tx), nil
	}
	ls, err := peekLease(tx, x.name)
	return tx.Room() >= max(cost(ls.Value), 2+len(x.locks)), err
}

// needRests names the records that the end of these begins with.
func needRests(some []*rest) (q driver.Query) {
	for _, x := range some {
		if x.queue != "" {
			q.Keys = append(q.Keys, append(leaseKeys(x.gone), queueKind+x.queue)...)
		} else {
			q.Keys = append(q.Keys, leaseKind+x.name)
		}
	}
	return q
}

// wantRests reads at once what the end of these needs.
func wantRests(tx *store.Tx, some []*rest) error {
	var names, keys []string
	for _, x := range some {
		if x.queue != "" {
			continue
		}
		ls, err := store.Peek[leaseRecord](tx, leaseKind+x.name)
		if err != nil {
			return err
		}
		names = append(names, x.name)
		keys = append(keys, append(lockKeys(x.keys()), Prefixed(queueKind, ls.Value.WaitsFor)...)...)
	}
	return cmp.Or(tx.Want(keys...), wantLeases(tx, names))
}

// end decides again on the guarded records. It returns the locks that it frees, or
// how many waiters or users have ended.
func (r CleanupRequest) end(tx *store.Tx, x *rest) (freed []Info, others int, err error) {
	if x.queue != "" {
		others, err = dropPlaces(tx, x.queue, x.gone)
		return nil, others, err
	}
	ls, err := getLease(tx, x.name)
	switch {
	case err != nil || !r.over(ls):
		return nil, 0, err
	case ls.Value.ticket() && r.ends(ls):
		return nil, 1, dropTicket(tx, x.name, "")
	case len(x.locks) == 0 && (!ls.Exists() || !r.ends(ls)):
		return nil, 0, nil
	case len(x.locks) == 0:
		others = 1
	}
	for _, l := range x.locks {
		lk, err := lockOf(tx, ls, l.Key)
		if err != nil {
			return nil, 0, err
		}
		if lk.Exists() && lk.Value.Lease == x.name {
			freed = append(freed, l)
		}
	}
	how := ending{event: "expired", by: r.By, why: string(stateOf(ls))}
	if stateOf(ls) == Held {
		how = ending{event: "broken", by: r.By, why: "silent for " + ls.Age.Round(time.Second).String()}
	}
	keys := ls.Value.all()
	if !ls.Exists() {
		keys = x.keys()
	}
	return freed, others, endKeys(tx, ls, keys, how)
}

// dropPlaces drops the places in a queue whose tickets are gone.
func dropPlaces(tx *store.Tx, key string, tickets []string) (int, error) {
	q, err := getQueue(tx, key)
	if err != nil {
		return 0, err
	}
	gone := lapses{}
	for _, t := range tickets {
		rev, err := tx.RevOf(leaseKind + t)
		if err != nil {
			return 0, err
		}
		if rev == 0 {
			gone[t] = tx.Now().UTC()
		}
	}
	if !q.Value.sweeps(tx.Now(), gone) {
		return 0, nil
	}
	rec, err := q.Value.sweep(tx, key, gone)
	if err != nil {
		return 0, err
	}
	return len(q.Value.Tickets) - len(rec.Tickets), rec.put(tx, key)
}
