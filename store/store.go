// Package store turns a driver into transactions.
//
// A transaction is a function over one consistent snapshot. [Store.Update]
// reads what the function needs in one round trip, runs it, turns what it
// looked at into guards, and commits; when someone else was faster it runs the
// function again on fresh data. [Store.View] does the same without writing.
// Retry and back-off live here and nowhere else.
//
// # What it guarantees
//
// Every record that the function read with [Get] is unchanged at the moment
// its writes appear, all of them at once. [Tx.Scan] guards nothing: it finds
// candidates, each of which is then decided by Get.
//
// # What happens on failure
//
// A commit whose reply is lost has an unknown outcome. Update looks for the
// receipt the transaction left (see [Tx.Receipt]), and if there is none runs
// the function again; it never guesses. When the store stays out of reach the
// error is [ErrUnknown] if a commit may have been applied, and
// [ErrUnreachable] if none was tried.
package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tasklock/tasklock/fault"
	"github.com/tasklock/tasklock/store/driver"
)

// Errors of this package. The refusals of package driver pass through.
var (
	// ErrUnknown: a commit was sent and it is not known whether it was applied.
	ErrUnknown = errors.New("outcome unknown")
	// ErrUnreachable: the store could not be read; nothing was changed.
	ErrUnreachable = errors.New("store unreachable")
	// ErrMoved: the records live in another store now.
	ErrMoved = errors.New("store has moved")
)

const (
	maxFailures = 5   // attempts at a store that does not answer
	maxReads    = 200 // snapshots one attempt may take to learn what it needs
	lookupTime  = 2 * time.Second
)

// Store is a place that keeps records, seen through transactions.
// It is safe for concurrent use.
type Store struct {
	d driver.Store
}

// New returns a Store over a driver.
func New(d driver.Store) *Store { return &Store{d: d} }

// Close closes the driver.
func (s *Store) Close() error { return s.d.Close() }

// Wait returns once one of the guards may no longer hold, or ctx ends.
func (s *Store) Wait(ctx context.Context, guards []driver.Guard) error {
	return s.d.Wait(ctx, guards)
}

// View runs fn on one consistent snapshot. need names what fn will ask for;
// what it leaves out is fetched when fn asks, at the price of a further read.
func (s *Store) View(ctx context.Context, need driver.Query, fn func(*Tx) error) error {
	a := attempt{s: s, need: clip(need)}
	for {
		_, err := a.run(ctx, fn)
		if !a.retryRead(ctx, err) {
			return err
		}
	}
}

// Update runs fn on one consistent snapshot and commits what it wrote if
// nothing it read has changed, else runs it again. It returns the revision of
// the commit, or that of the snapshot if fn wrote nothing. fn must have no
// effect besides its Tx and variables that each run sets anew.
func (s *Store) Update(ctx context.Context, need driver.Query, fn func(*Tx) error) (int64, error) {
	a := attempt{s: s, need: clip(need)}
	for conflicts := 0; ; {
		tx, err := a.run(ctx, fn)
		if a.retryRead(ctx, err) {
			continue
		}
		if err != nil {
			return 0, a.final(err)
		}
		if a.landed > 0 {
			return a.landed, nil
		}
		if len(tx.order) == 0 {
			return tx.snap.Rev, nil
		}
		b, err := tx.batch()
		if err != nil {
			return 0, err
		}
		fault.Point("store.commit")
		rev, err := s.d.Commit(ctx, b)
		switch {
		case err == nil:
			return rev, nil
		case errors.Is(err, driver.ErrConflict):
			conflicts++
			if err := pause(ctx, time.Millisecond, conflicts); err != nil {
				return 0, a.final(err)
			}
		case driver.Refusal(err):
			return 0, err
		default:
			if a.unknown(ctx, tx) {
				continue
			}
			return a.giveUp(err)
		}
	}
}

// attempt is the state of one Update or View over its repetitions.
type attempt struct {
	s        *Store
	need     driver.Query
	receipts []string // of commits whose outcome is unknown
	landed   int64    // revision of one of them that was found
	sent     bool     // some commit may have been applied
	failures int
}

// run reads what is needed and runs fn, again and again until fn has asked
// for nothing that was not read.
func (a *attempt) run(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	for range maxReads {
		q := a.need
		q.Keys = append([]string{metaKey}, append(q.Keys, a.receipts...)...)
		snap, err := a.s.d.Read(ctx, q)
		if err != nil {
			return nil, &readError{err}
		}
		tx := newTx(snap, q)
		for _, r := range a.receipts {
			if rec, ok := tx.known[r]; ok && rec.Rev > 0 {
				a.landed = rec.Rev
				return tx, nil
			}
		}
		if err := tx.checkMeta(); err != nil {
			return nil, err
		}
		fault.Point("store.fn")
		err = fn(tx)
		if len(tx.missing.Keys)+len(tx.missing.Ranges) == 0 {
			return tx, err
		}
		a.need.Keys = append(a.need.Keys, tx.missing.Keys...)
		a.need.Ranges = append(a.need.Ranges, tx.missing.Ranges...)
	}
	return nil, fmt.Errorf("transaction still asks for more records after %d reads", maxReads)
}

// retryRead reports whether err is a failed read that is worth another try.
func (a *attempt) retryRead(ctx context.Context, err error) bool {
	var r *readError
	if !errors.As(err, &r) || driver.Refusal(r.err) || ctx.Err() != nil {
		return false
	}
	a.failures++
	return a.failures < maxFailures && pause(ctx, 20*time.Millisecond, a.failures) == nil
}

// unknown takes note of a commit that may have been applied and reports
// whether to go on: the next run looks for its receipt.
func (a *attempt) unknown(ctx context.Context, tx *Tx) bool {
	a.sent = true
	if tx.receipt != "" {
		a.receipts = append(a.receipts, tx.receipt)
	}
	a.failures++
	return ctx.Err() == nil && a.failures < maxFailures && pause(ctx, 20*time.Millisecond, a.failures) == nil
}

// giveUp looks once more for a receipt, even when ctx has ended: the caller
// wants to know.
func (a *attempt) giveUp(cause error) (int64, error) {
	if len(a.receipts) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
		defer cancel()
		snap, err := a.s.d.Read(ctx, driver.Query{Keys: a.receipts})
		if err == nil && len(snap.Records) > 0 {
			return snap.Records[0].Rev, nil
		}
	}
	return 0, fmt.Errorf("%w: %w", ErrUnknown, cause)
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

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// readError marks an error of Read, after which nothing has happened.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (e *readError) Unwrap() []error {
	if driver.Refusal(e.err) || isContext(e.err) {
		return []error{e.err}
	}
	return []error{ErrUnreachable, e.err}
}

// pause waits with full jitter before the n-th repetition.
func pause(ctx context.Context, unit time.Duration, n int) error {
	t := time.NewTimer(rand.N(min(unit<<min(n, 10), 500*time.Millisecond)) + 1)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func clip(q driver.Query) driver.Query {
	return driver.Query{
		Keys:   append([]string(nil), q.Keys...),
		Ranges: append([]driver.Range(nil), q.Ranges...),
	}
}
