package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// BusyError: held locks block the operation.
type BusyError struct{ Holders []Info }

func (e *BusyError) Error() string {
	const most = 3
	var names []string
	for _, h := range e.Holders[:min(len(e.Holders), most)] {
		names = append(names, fmt.Sprintf("%s is held by %s", h.Key, h.Owner))
	}
	if more := len(e.Holders) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more are held", more))
	}
	return strings.Join(names, ", ")
}

// Leave is a [store.MoveRequest.Leave] that refuses with a [*BusyError] while
// anybody holds a lock. Nobody can take one until the move has begun.
func Leave(tx *store.Tx) error {
	tx.GuardKind(lockKind)
	tx.GuardKind(pathKind)
	tx.GuardKind(leaseKind)
	var holders []Info
	err := eachLock(tx, func(lk store.Entry[lockRecord], ls store.Entry[leaseRecord], q queueRecord) error {
		if stateOf(ls) == Held {
			holders = append(holders, newInfo(lk, ls, q))
		}
		return nil
	})
	if err == nil && len(holders) > 0 {
		err = &BusyError{Holders: holders}
	}
	return err
}

// Carry is a [store.Carry] for the records of this package. A lease that is over
// stays behind, and its locks are free where they arrive: a record begins to age
// again there, and would keep others out for another ttl. A lease in force arrives
// with its whole ttl, and its locks with new tokens; its holder never has more time
// than that. A line of history keeps its token, and the revision it had. Tickets and queues stay behind:
// waiters ask again. The notes of a [Sweeper] stay behind too.
func Carry(c store.Copy) func(driver.Record) (w driver.Write, keep bool) {
	leases := map[string]store.Entry[leaseRecord]{}
	for _, rec := range c.Records {
		if name, ok := strings.CutPrefix(rec.Key, leaseKind); ok {
			e, err := store.DecodeAt[leaseRecord](c.Now, rec)
			if err == nil { // an unreadable record travels unchanged: damage is not free
				leases[name] = e
			}
		}
	}
	return func(rec driver.Record) (driver.Write, bool) {
		w := store.Unchanged(rec)
		switch driver.Kind(rec.Key) {
		case requestKind:
			w.TTL = keepTokens
			return w, c.Now.Sub(rec.Time) <= keepTokens
		case leaseKind:
			ls, ok := leases[leaseName(rec.Key)]
			if !ok {
				return w, true
			}
			ls, _ = keptBy(ls, func(name string) (store.Entry[leaseRecord], error) { return leases[name], nil })
			w.TTL = ls.Value.stays()
			return w, stateOf(ls) == Held && (ls.Value.holds() || len(ls.Value.WaitsFor) == 0)
		case queueKind, expiredKind:
			return w, false
		case eventKind:
			w.Value = carried(rec)
		}
		return w, true
	}
}

// Retoken writes every lock again that was granted before a revision, so that it
// has a new token: for a store that begins another life in place (see
// [driver.Lift]). The locks keep others out as before, until their leases end, but
// the store refuses a holder with an old token: another life may have the same
// lock. An unreadable record does not change.
func Retoken(ctx context.Context, st *store.Store, before int64) error {
	need := driver.Query{Ranges: []driver.Range{{Prefix: lockKind}, {Prefix: pathKind}}}
	for more := true; more; {
		_, err := st.Update(ctx, need, func(tx *store.Tx) (err error) {
			more, err = retoken(tx, before)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// retoken writes as many locks as one commit can guard, and reports whether there
// are more.
func retoken(tx *store.Tx, before int64) (more bool, err error) {
	tx.Note(fmt.Sprintf("new tokens for locks from before revision %d", before))
	for _, kind := range []string{lockKind, pathKind} {
		recs, err := tx.Scan(kind, 0)
		if err != nil {
			return false, err
		}
		for _, rec := range recs {
			if rec.Rev >= before {
				continue
			}
			if tx.Room() == 0 {
				return true, nil
			}
			lk, err := store.Get[json.RawMessage](tx, rec.Key)
			if err != nil {
				continue
			}
			if err := tx.Put(rec.Key, lk.Value); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}
