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
// the function again; it never guesses, and what it answers stays true: a
// commit that may still be on its way is made void first. When the store stays
// out of reach the
// error is [ErrUnknown] if a commit may have been applied, and
// [ErrUnreachable] if none was tried.
package store

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
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

	mu     sync.Mutex
	jitter *rand.Rand
}

// New returns a Store over a driver.
func New(d driver.Store) *Store {
	var seed [32]byte
	crand.Read(seed[:])
	return &Store{d: d, jitter: rand.New(rand.NewChaCha8(seed))}
}

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
		tx, answer := a.run(ctx, fn)
		switch {
		case a.landed > 0:
			return a.landed, nil
		case a.retryRead(ctx, answer):
			continue
		case tx == nil:
			return a.giveUp(answer)
		}
		b, err := a.batch(tx, answer)
		if err != nil {
			return 0, err
		}
		rev := tx.snap.Rev
		if len(b.Writes) > 0 {
			fault.Point("store.commit")
			rev, err = s.d.Commit(ctx, b)
		}
		switch {
		case err == nil && answer != nil:
			return 0, answer
		case err == nil:
			return rev, nil
		case errors.Is(err, driver.ErrConflict):
			conflicts++
			if err := s.pause(ctx, time.Millisecond, conflicts); err != nil {
				return a.giveUp(err)
			}
		case driver.Refusal(err):
			return 0, err
		case !a.unknown(ctx, tx):
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
		if a.look(tx.known); a.landed > 0 {
			return tx, nil
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
	return a.failures < maxFailures && a.s.pause(ctx, 20*time.Millisecond, a.failures) == nil
}

// unknown takes note of a commit that may have been applied and reports
// whether to go on: the next run looks for its receipt.
func (a *attempt) unknown(ctx context.Context, tx *Tx) bool {
	a.sent = true
	if tx.receipt != "" {
		a.receipts = append(a.receipts, tx.receipt)
	}
	a.failures++
	return ctx.Err() == nil && a.failures < maxFailures && a.s.pause(ctx, 20*time.Millisecond, a.failures) == nil
}

// look searches for the receipts of commits whose outcome was unknown. One
// that was made void can never be applied any more.
func (a *attempt) look(known map[string]driver.Record) {
	a.receipts = slices.DeleteFunc(a.receipts, func(r string) bool {
		rec := known[r]
		if rec.Rev > 0 && !bytes.Equal(rec.Value, void) {
			a.landed = rec.Rev
		}
		return rec.Rev > 0
	})
}

// void stands in place of a receipt: the commit that would have written it is
// guarded by its absence.
var void = []byte(`{"void":true}`)

// batch is what to commit after a run of fn. Earlier commits that may still be
// on their way are made void by the same commit: what Update answers must stay
// true. An answer that is an error, or without writes, commits nothing else.
func (a *attempt) batch(tx *Tx, answer error) (driver.Batch, error) {
	if answer != nil || len(tx.order) == 0 {
		if len(a.receipts) == 0 {
			return driver.Batch{}, nil
		}
		meta := tx.known[metaKey]
		tx = newTx(tx.snap, driver.Query{})
		tx.known[metaKey] = meta
	}
	for _, r := range a.receipts {
		tx.guards[r] = 0
		tx.write(driver.Write{Key: r, Value: void})
	}
	return tx.batch()
}

// giveUp ends without an answer. It looks once more for a receipt, even when
// ctx has ended: the caller wants to know.
func (a *attempt) giveUp(cause error) (int64, error) {
	if !a.sent {
		return 0, cause
	}
	if len(a.receipts) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
		defer cancel()
		if snap, err := a.s.d.Read(ctx, driver.Query{Keys: a.receipts}); err == nil {
			a.look(newTx(snap, driver.Query{}).known)
		}
	}
	if a.landed > 0 {
		return a.landed, nil
	}
	return 0, fmt.Errorf("%w: %w", ErrUnknown, cause)
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
func (s *Store) pause(ctx context.Context, unit time.Duration, n int) error {
	s.mu.Lock()
	d := s.jitter.Int64N(int64(min(unit<<min(n, 10), 500*time.Millisecond))) + 1
	s.mu.Unlock()
	t := time.NewTimer(time.Duration(d))
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
