package lease

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A Sweeper writes an event when a lease expires. Expiry itself writes nothing: those
// who watch would learn of it only when somebody takes over. The event takes nothing
// away, and a late heartbeat succeeds as before.
//
// It writes one event for each heartbeat that was the last for longer than the ttl,
// however many sweepers there are: the same commit notes the revision of the lease in
// the record expired/<lease>, and guards both. It reads only the leases that were
// written since its last round. A Sweeper is for one goroutine.
type Sweeper struct {
	st     *store.Store
	seen   int64                // leases up to this revision are in the map, if they can expire
	leases map[string]time.Time // name → when it expires, about, by the store's clock
}

// NewSweeper returns a sweeper that has seen nothing.
func NewSweeper(st *store.Store) *Sweeper { return &Sweeper{st: st, leases: map[string]time.Time{}} }

const (
	expiredKind = "expired/"
	sweepStep   = 30 // leases of one commit: each takes a guard, and so does its note
)

// expiredRecord notes that the event of an expired lease was written.
type expiredRecord struct {
	Rev int64 `json:"rev"` // of the lease
}

// Sweep writes the events that are due, and returns how many. It also deletes the notes
// about leases that are gone.
func (s *Sweeper) Sweep(ctx context.Context) (written int, err error) {
	due, gone, err := s.look(ctx)
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(due, sweepStep) {
		n, err := s.write(ctx, some)
		if err != nil {
			return written, err
		}
		written += n
	}
	for some := range slices.Chunk(gone, sweepStep) {
		if err := s.forget(ctx, some); err != nil {
			return written, err
		}
	}
	return written, nil
}

// look reads the leases that are new, and returns those that may have expired, and
// the notes whose lease is gone.
func (s *Sweeper) look(ctx context.Context) (due, gone []string, err error) {
	need := driver.Query{Ranges: []driver.Range{{Prefix: leaseKind, Since: s.seen}, {Prefix: expiredKind}}}
	leases := map[string]time.Time{}
	err = s.st.View(ctx, need, func(tx *store.Tx) error {
		leases, due, gone = maps.Clone(s.leases), nil, nil
		since := s.seen
		if tx.Rev() < since { // the store has lost commits that it had shown
			since, leases = 0, map[string]time.Time{}
		}
		recs, err := tx.ScanSince(leaseKind, since)
		if err != nil {
			return err
		}
		for _, rec := range recs {
			ls, err := store.Decode[leaseRecord](tx, rec)
			switch l := ls.Value; {
			case err != nil || len(l.Keys) == 0 || l.endless(): // an unreadable one is for doctor
				delete(leases, leaseName(rec.Key))
			default:
				leases[leaseName(rec.Key)] = ls.Time.Add(l.ttl())
			}
		}
		for name, at := range leases {
			if !at.After(tx.Now()) {
				due = append(due, name)
			}
		}
		slices.Sort(due)
		gone, err = notesWithout(tx)
		s.seen = tx.Rev()
		return err
	})
	if err != nil {
		s.seen = 0 // read all of them again
		return nil, nil, err
	}
	s.leases = leases
	return due, gone, nil
}

// notesWithout are the leases that have a note and no record any more.
func notesWithout(tx *store.Tx) (gone []string, err error) {
	notes, err := tx.Scan(expiredKind, 0)
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		name := strings.TrimPrefix(note.Key, expiredKind)
		rev, missing := tx.RevOf(leaseKind + name)
		if err = cmp.Or(err, missing); missing == nil && rev == 0 {
			gone = append(gone, name)
		}
	}
	return gone, err
}

// write writes the events of some leases, if they have expired and nobody did before.
func (s *Sweeper) write(ctx context.Context, names []string) (written int, err error) {
	need := driver.Query{Keys: append(leaseKeys(names), Prefixed(expiredKind, names)...)}
	later := map[string]time.Time{}
	_, err = s.st.Update(ctx, need, func(tx *store.Tx) error {
		clear(later)
		over, err := expired(tx, names, later)
		if err != nil {
			return err
		}
		written = len(over)
		return logExpired(tx, over)
	})
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		delete(s.leases, name) // the next heartbeat brings it back
	}
	maps.Copy(s.leases, later)
	return written, nil
}

// expired returns the leases that have expired and have no note of it. It adds those
// that were renewed to later.
func expired(tx *store.Tx, names []string, later map[string]time.Time) (over []store.Entry[leaseRecord], err error) {
	for _, name := range names {
		ls, err := store.Get[leaseRecord](tx, leaseKind+name)
		if err != nil {
			return nil, err
		}
		note, err := store.Get[expiredRecord](tx, expiredKind+name)
		switch {
		case err != nil:
			return nil, err
		case !ls.Exists() || len(ls.Value.Keys) == 0 || note.Value.Rev == ls.Rev:
		case stateOf(ls) == Expired:
			over = append(over, ls)
		default:
			later[name] = ls.Time.Add(ls.Value.ttl())
		}
	}
	return over, nil
}

// logExpired writes an event and a note for each lease.
func logExpired(tx *store.Tx, over []store.Entry[leaseRecord]) error {
	var locks []string
	for _, ls := range over {
		locks = append(locks, recordOf(ls.Value.Keys[0]))
	}
	if err := tx.Want(locks...); err != nil {
		return err
	}
	for i, ls := range over {
		lk, err := store.Peek[lockRecord](tx, locks[i])
		if err != nil {
			return err
		}
		name := leaseName(ls.Key)
		e := Event{Event: "expired", Open: true, Keys: ls.Value.Keys, Owner: ls.Value.Owner, Lease: name, Token: lk.Rev, Why: "no heartbeat"}
		if err := cmp.Or(Log(tx, e), tx.Put(expiredKind+name, expiredRecord{Rev: ls.Rev})); err != nil {
			return err
		}
	}
	return nil
}

// forget deletes the notes about leases that are gone.
func (s *Sweeper) forget(ctx context.Context, names []string) error {
	need := driver.Query{Keys: append(leaseKeys(names), Prefixed(expiredKind, names)...)}
	_, err := s.st.Update(ctx, need, func(tx *store.Tx) error {
		for _, name := range names {
			ls, err := store.Get[leaseRecord](tx, leaseKind+name)
			if err != nil {
				return err
			}
			if !ls.Exists() {
				tx.Delete(expiredKind + name)
			}
		}
		return nil
	})
	return err
}
