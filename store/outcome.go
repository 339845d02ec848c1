package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// decide finds the outcome of a commit whose reply was lost, before fn runs
// again: the result of fn must be that of the commit that counts. It returns
// the revision if the commit was applied, and 0 if it never will be. Even when
// ctx has ended it tries once, because the caller wants to know.
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

// void takes the place of a receipt. The commit that would have written the
// receipt requires its absence.
var void = []byte(`{"void":true}`)

// lookOrVoid looks for the receipt of a commit. If there is none, the commit
// may still be on its way, and lookOrVoid makes it void.
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
		return 0, !snap.Unsure || s.confirm(ctx, driver.Guard{Key: tx.receipt, Rev: found.Rev}, driver.Guard{Key: metaKey, Rev: seen[metaKey].Rev}) == nil
	}
	_, err = s.d.Commit(ctx, driver.Batch{
		Guards: []driver.Guard{{Key: metaKey, Rev: tx.known[metaKey].Rev}, {Key: tx.receipt}},
		Writes: []driver.Write{{Key: tx.receipt, Value: void}},
	})
	return 0, err == nil
}

// confirmKey is a record that never exists. Deleting it is a commit that
// changes nothing.
const confirmKey = "meta/confirm"

// confirm makes sure that what was found lasts. A PostgreSQL server shows a commit
// some milliseconds before it has synced it, and can lose it in a crash, or when
// its standby takes over. A further commit that is acknowledged comes after it in
// the server's log.
func (s *Store) confirm(ctx context.Context, found ...driver.Guard) error {
	_, err := s.d.Commit(ctx, driver.Batch{Guards: found, Writes: []driver.Write{{Key: confirmKey}}})
	return err
}

// affirmed confirms what a transaction without writes has read: somebody gets
// "done" for an answer. Views that nobody relies on need not last, see
// [Tx.Affirm]. [driver.ErrConflict] means that it has changed: look again. For a caller that
// may not write, what the server shows is the best answer.
func (a *attempt) affirmed(ctx context.Context, tx *Tx) error {
	if !tx.snap.Unsure || a.read && !tx.affirm {
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

// final returns ErrUnknown if fn did not decide and an earlier commit may have
// been applied.
func (a *attempt) final(err error) error {
	if _, read := errors.AsType[*readError](err); a.sent && (read || isContext(err)) {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}
