package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/store/driver"
)

// decide finds out what became of a commit whose reply was lost, before fn
// runs again: its result must be that of the commit that counts. It returns
// the revision if the commit was applied, and 0 if it never will be. Even when
// ctx has ended it tries once: the caller wants to know.
func (a *attempt) decide(ctx context.Context, tx *Tx, cause error) (int64, error) {
	if tx.receipt == "" {
		if a.sent = true; a.again(ctx) {
			return 0, nil
		}
		return 0, a.final(&readError{cause})
	}
	for a.again(ctx) {
		if rev, decided := a.s.lookOrVoid(ctx, tx); decided {
			return rev, nil
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTime)
	defer cancel()
	rev, decided := a.s.lookOrVoid(ctx, tx)
	switch {
	case !decided:
		return 0, fmt.Errorf("%w: %w", ErrUnknown, cause)
	case rev == 0:
		return 0, a.final(&readError{cause})
	}
	return rev, nil
}

// void stands in place of a receipt: the commit that would have written it is
// guarded by its absence.
var void = []byte(`{"void":true}`)

// lookOrVoid looks for the receipt of a commit. If it is not there, the commit
// may still be on its way, and is made void.
func (s *Store) lookOrVoid(ctx context.Context, tx *Tx) (rev int64, decided bool) {
	snap, err := s.d.Read(ctx, driver.Query{Keys: []string{tx.receipt, metaKey}})
	if err != nil {
		return 0, false
	}
	seen := newTx(snap, driver.Query{}).known
	switch found := seen[tx.receipt]; {
	case found.Rev > 0 && !bytes.Equal(found.Value, void):
		return found.Rev, s.confirm(ctx, driver.Guard{Key: tx.receipt, Rev: found.Rev}) == nil
	case found.Rev > 0, seen[metaKey].Rev != tx.known[metaKey].Rev: // the commit was guarded by both
		return 0, true
	}
	_, err = s.d.Commit(ctx, driver.Batch{
		Guards: []driver.Guard{{Key: metaKey, Rev: tx.known[metaKey].Rev}, {Key: tx.receipt}},
		Writes: []driver.Write{{Key: tx.receipt, Value: void}},
	})
	return 0, err == nil
}

// confirmKey is a record that is never there, to be deleted: a commit that
// changes nothing.
const confirmKey = "meta/confirm"

// confirm makes sure that what was found lasts. A commit can be seen that was
// never acknowledged and will be lost: by a PostgreSQL server that crashed, or
// was told not to wait, before its synchronous standby had it. One more commit
// that is acknowledged comes after it in the server's log.
func (s *Store) confirm(ctx context.Context, found ...driver.Guard) error {
	if fault.Bug("seen_is_kept") {
		return nil
	}
	_, err := s.d.Commit(ctx, driver.Batch{Guards: found, Writes: []driver.Write{{Key: confirmKey}}})
	return err
}

// affirmed confirms what a transaction read that wrote nothing, if it is to last
// (see [Tx.Affirm]) or may be its own work, of which the reply was lost. [driver.ErrConflict]: it has changed, look again. Who may
// not write has no better answer than what can be seen.
func (a *attempt) affirmed(ctx context.Context, tx *Tx) error {
	if !tx.snap.Unsure || !tx.affirm && !a.sent {
		return nil
	}
	var guards []driver.Guard
	if !a.older { // else the records are not stored as they were read
		tx.guards[metaKey] = tx.known[metaKey].Rev
		guards = tx.fold()
	}
	err := a.s.confirm(ctx, guards...)
	switch {
	case err == nil || errors.Is(err, driver.ErrDenied):
		return nil
	case errors.Is(err, driver.ErrConflict):
		a.conflicts++
		return cmp.Or(a.s.pause(ctx, time.Millisecond, a.conflicts), err)
	case unwritten(err): // it waited long enough
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return &readError{err}
}

// final says ErrUnknown where fn did not decide and an earlier commit may have
// been applied.
func (a *attempt) final(err error) error {
	var r *readError
	if a.sent && (errors.As(err, &r) || isContext(err)) {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}
