package lease

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store"
)

// CleanupRequest frees locks that nobody can be working under.
type CleanupRequest struct {
	By     string        // who cleans up, for the audit
	Silent time.Duration // also break leases that had no heartbeat for this long; 0: only expired and dead ones
	DryRun bool
}

// CleanupResult says what was freed.
type CleanupResult struct {
	Freed   []Info `json:"freed"`   // with the state for which they were freed
	Tickets int    `json:"tickets"` // waiters that never came back
	Pruned  int    `json:"pruned"`  // old records of history and requests
}

// Cleanup ends every lease that has expired or whose process is provably dead,
// drops abandoned tickets, and shortens the history. It ends each lease by
// compare-and-swap: one that is renewed meanwhile stays.
func Cleanup(ctx context.Context, st *store.Store, r CleanupRequest) (CleanupResult, error) {
	out := CleanupResult{Freed: []Info{}}
	if r.Silent < 0 {
		return out, &InvalidError{What: "silence " + r.Silent.String(), Rule: "must not be negative"}
	}
	for {
		n, err := r.round(ctx, st, &out)
		if err != nil {
			return out, err
		}
		if n == 0 || r.DryRun {
			break
		}
	}
	var err error
	out.Pruned, err = pruneAll(ctx, st, r.DryRun)
	return out, err
}

func (r CleanupRequest) round(ctx context.Context, st *store.Store, out *CleanupResult) (n int, err error) {
	var freed []Info
	var tickets int
	_, err = UpdateOrLook(ctx, st, r.DryRun, Everything, func(tx *store.Tx) error {
		freed, tickets = nil, 0
		leases, err := scan[leaseRecord](tx, leaseKind)
		if err != nil {
			return err
		}
		if err := r.wantOver(tx); err != nil {
			return err
		}
		ended := map[string]bool{}
		err = eachLock(tx, func(lk store.Entry[lockRecord], ls store.Entry[leaseRecord], q queueRecord) error {
			if name := lk.Value.Lease; r.over(ls) && (ended[name] || len(ended) == 0 || tx.Room() > cost(ls.Value)) {
				freed = append(freed, newInfo(lk, ls, q))
				if ended[name] {
					return nil
				}
				ended[name] = true
				return r.end(tx, lk.Value.Key, name)
			}
			return nil
		})
		if err != nil {
			return err
		}
		tickets, err = r.tickets(tx, leases)
		return err
	})
	if err != nil {
		return 0, err
	}
	out.Freed = append(out.Freed, freed...)
	out.Tickets += tickets
	return len(freed) + tickets, nil
}

// wantOver reads at once what the end of the first leases needs.
func (r CleanupRequest) wantOver(tx *store.Tx) error {
	var names []string
	err := eachLock(tx, func(lk store.Entry[lockRecord], ls store.Entry[leaseRecord], _ queueRecord) error {
		if r.over(ls) && (len(names) < tx.Room()) {
			names = append(names, lk.Value.Lease)
		}
		return nil
	})
	return cmp.Or(err, wantLeases(tx, names))
}

// over says whether to end a lease. A lease that never expires has no
// heartbeats, so its silence means nothing.
func (r CleanupRequest) over(ls store.Entry[leaseRecord]) bool {
	return stateOf(ls) != Held || r.Silent > 0 && ls.Age > r.Silent && !ls.Value.endless()
}

// end decides again on the guarded records and ends the lease.
func (r CleanupRequest) end(tx *store.Tx, key, name string) error {
	ls, err := getLease(tx, name)
	if err != nil || !r.over(ls) {
		return err
	}
	how := ending{event: "expired", by: r.By, why: string(stateOf(ls))}
	if stateOf(ls) == Held {
		how = ending{event: "broken", by: r.By, why: "silent for " + ls.Age.Round(time.Second).String()}
	}
	keys := ls.Value.all()
	if !ls.Exists() {
		keys = []string{key}
	}
	return endKeys(tx, ls, keys, how)
}

// users ends leases that only use what others hold: no lock leads to them.
func (r CleanupRequest) users(tx *store.Tx, leases map[string]store.Entry[leaseRecord]) (n int, err error) {
	for _, name := range slices.Sorted(maps.Keys(leases)) { // each run must choose the same
		u := leases[name]
		if !u.Value.holds() || len(u.Value.Keys) > 0 || !r.over(u) || tx.Room() < cost(u.Value) {
			continue
		}
		now, err := getLease(tx, name)
		if err != nil {
			return n, err
		}
		if now.Exists() && r.over(now) {
			n++
			err = endKeys(tx, now, now.Value.all(), ending{event: "expired", by: r.By})
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// tickets drops waiters that did not come back in time, places without a record,
// and users that are over.
func (r CleanupRequest) tickets(tx *store.Tx, leases map[string]store.Entry[leaseRecord]) (n int, err error) {
	if n, err = r.users(tx, leases); err != nil {
		return n, err
	}
	for _, name := range slices.Sorted(maps.Keys(leases)) {
		t := leases[name]
		if t.Value.ticket() && stateOf(t) != Held && t.Age-t.Value.ttl() > placeKept && roomToDrop(tx) {
			n++
			if err := dropTicket(tx, name, ""); err != nil {
				return n, err
			}
		}
	}
	dropped, err := r.places(tx, leases)
	return n + dropped, err
}

// places drops the places in queues whose tickets are gone.
func (r CleanupRequest) places(tx *store.Tx, leases map[string]store.Entry[leaseRecord]) (n int, err error) {
	queues, err := scan[queueRecord](tx, queueKind)
	if err != nil {
		return n, err
	}
	for _, key := range slices.Sorted(maps.Keys(queues)) {
		q, gone := queues[key].Value, lapses{}
		for _, t := range q.Tickets {
			if !leases[t].Exists() {
				gone[t] = tx.Now().UTC()
			}
		}
		if !roomToDrop(tx) || !q.sweeps(tx.Now(), gone) {
			continue
		}
		now, err := getQueue(tx, key)
		if err != nil {
			return n, err
		}
		rec, err := now.Value.sweep(tx, key, gone)
		if err != nil {
			return n, err
		}
		n += len(now.Value.Tickets) - len(rec.Tickets)
		if err := rec.put(tx, key); err != nil {
			return n, err
		}
	}
	return n, nil
}
