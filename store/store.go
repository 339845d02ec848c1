// Package store turns a driver into transactions.
//
// A transaction is a function over one consistent snapshot. [Store.Update]
// reads what the function needs in one round trip, runs it, turns what it
// looked at into guards, and commits; when someone else was faster it runs the
// function again on fresh data. [Store.View] does the same without writing.
// Retry and back-off live here and nowhere else.
//
// The first run may be on what the driver last saw, if that spares asking a
// server: when the commit succeeds, nothing had changed. Any other outcome
// counts only on data read after the call.
//
// # What it guarantees
//
// Every record that the function read with [Get] is unchanged at the moment
// its writes appear, all of them at once. [Tx.Scan] and [Peek] guard nothing:
// they find candidates, each of which is then decided by Get.
//
// # What happens on failure
//
// A commit whose reply is lost has an unknown outcome. Update looks for the
// receipt the transaction left (see [Tx.Receipt]). A receipt counts once the
// server has acknowledged a further commit: until then it may still lose both.
// If there is none, the commit may still be on its way: Update makes it void and
// runs the function again. So Update never guesses, its answer stays true, and
// the variables that the function set are those of the run that was applied. If
// the store stays unreachable, the error is [ErrUnknown] if a commit may have
// been applied, and [ErrUnreachable] if none was tried.
package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/store/driver"
)

// Errors of this package. The refusals of package driver pass through.
var (
	// ErrUnknown: a commit was sent, and nobody knows whether it was applied.
	ErrUnknown = errors.New("outcome unknown")
	// ErrUnreachable: the store could not be read; nothing was changed.
	ErrUnreachable = driver.ErrUnreachable
	// ErrMoved: the records are in another store now.
	ErrMoved = errors.New("store has moved")
	// ErrFilling: a copy into this store is not complete.
	ErrFilling = errors.New("store is incomplete")
	// ErrNotEmpty: a copy would mix with existing records.
	ErrNotEmpty = errors.New("store is not empty")
	// ErrSame: source and target of a move are one store.
	ErrSame = errors.New("cannot move a store to itself")
)

const (
	maxFailures     = 5 // attempts at a store that does not answer
	defaultPatience = 30 * time.Second
	maxReads        = 200 // snapshots one attempt may take to learn what it needs
	lookupTime      = 2 * time.Second
)

// Store gives transactions on the records of a driver.
// It is safe for concurrent use.
type Store struct {
	d    driver.Store
	o    Options
	slow atomic.Bool  // what was read last was converted on the way
	meta atomic.Int64 // the revision of the store's description when it was read last
	fine atomic.Value // a description with which the store can be used, as it is stored: []byte

	followers followers
	turns     turns

	mu     sync.Mutex
	jitter *rand.Rand
}

// New returns a Store over a driver. A store of an older format is refused with
// an [*OlderError]; see [NewWith].
func New(d driver.Store) *Store { return NewWith(d, Options{}) }

// OpenOptions are the same for every kind of store.
type OpenOptions = driver.OpenOptions

// Open opens the store that a URL names, such as "sqlite:locks.db". The program
// must import the driver, here store/sqlitestore. [driver.Open] lists the URLs.
func Open(ctx context.Context, url string, o *OpenOptions) (*Store, error) {
	d, err := driver.Open(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return New(d), nil
}

// Scheme is that of the store's URL, or empty if its driver has none.
func (s *Store) Scheme() string { return driver.SchemeOf(s.d) }

// Close ends all followers and closes the driver.
func (s *Store) Close() error {
	s.followers.mu.Lock()
	s.followers.end()
	s.followers.list = nil
	s.followers.mu.Unlock()
	return s.d.Close()
}

// Wait returns once one of the guards may no longer hold, the store is closed or
// opened (by a move, say), or ctx ends. A driver that cannot wait now, because a
// server is down, say, ends the wait early: the caller reads again, and a read
// is repeated with patience and names the trouble if it lasts.
func (s *Store) Wait(ctx context.Context, guards []driver.Guard) error {
	if rev := s.meta.Load(); rev > 0 {
		guards = append([]driver.Guard{{Key: metaKey, Rev: rev}}, guards...)
	}
	err := s.d.Wait(ctx, guards)
	if err == nil && s.slow.Load() { // records that are not converted yet would wake it at once
		err = s.pause(ctx, 500*time.Millisecond, 1)
	}
	if err != nil && !driver.Refusal(err) && !errors.Is(err, driver.ErrClosed) && ctx.Err() == nil {
		err = s.pause(ctx, time.Second, 1)
	}
	return err
}

// View runs fn on one consistent snapshot. need names what fn will ask for;
// anything else costs a further read when fn asks for it.
func (s *Store) View(ctx context.Context, need driver.Query, fn func(*Tx) error) error {
	a := attempt{s: s, need: clip(need), read: true}
	return a.view(ctx, fn)
}

func (a *attempt) view(ctx context.Context, fn func(*Tx) error) error {
	for {
		tx, err := a.run(ctx, fn)
		if err == nil {
			err = a.affirmed(ctx, tx)
		}
		if !errors.Is(err, driver.ErrConflict) && !a.retryRead(ctx, err) {
			return err
		}
	}
}

// Update runs fn on one consistent snapshot and commits what it wrote if
// nothing it read has changed; otherwise it runs fn again. It returns the
// revision of the commit, or that of the snapshot if fn wrote nothing. fn must
// have no effect besides its Tx and variables that each run sets again.
//
// fn runs again whenever it asked for a record that was not read, on a new
// snapshot with a later [Tx.Now] and perhaps another [Tx.Rev]. So what it read
// must decide which records it asks for, not the clock, the revision or chance:
// otherwise each run asks for others, and on a slow store no run is the last.
// Use [Tx.Began] for a time that becomes part of a key, and draw random numbers
// before Update. fn may ask for more because what it read has expired meanwhile.
func (s *Store) Update(ctx context.Context, need driver.Query, fn func(*Tx) error) (int64, error) {
	a := attempt{s: s, need: clip(need), guess: true}
	return a.update(ctx, fn)
}

func (a *attempt) update(ctx context.Context, fn func(*Tx) error) (int64, error) {
	tx, rev, err := a.commit(ctx, fn)
	if err == nil && tx.raised > 0 && a.s.o.Raised != nil {
		a.s.o.Raised(tx.raised)
	}
	if err == nil && len(tx.order) > 0 {
		tx.applied(ctx, a.s, rev)
	}
	return rev, err
}

// commit runs fn until a run is committed or has nothing to commit.
func (a *attempt) commit(ctx context.Context, fn func(*Tx) error) (*Tx, int64, error) {
	good := false
	defer func() { // fn may panic
		if a.done != nil {
			a.done(good)
		}
	}()
	tx, rev, err := a.tryCommit(ctx, fn)
	good = err == nil
	return tx, rev, err
}

func (a *attempt) tryCommit(ctx context.Context, fn func(*Tx) error) (*Tx, int64, error) {
	s := a.s
	for conflicts := 0; ; a.guess = false {
		tx, err := a.run(ctx, fn)
		switch {
		case a.guessed && (err != nil || len(tx.order) == 0 || !tx.proven()): // nothing proves that the old data is still true
			continue
		case a.retryRead(ctx, err):
			continue
		case err != nil:
			return nil, 0, a.final(err)
		case len(tx.order) == 0:
			if err := a.affirmed(ctx, tx); errors.Is(err, driver.ErrConflict) || a.retryRead(ctx, err) {
				continue
			} else if err != nil {
				return nil, 0, a.final(err)
			}
			return tx, tx.snap.Rev, nil
		case a.older:
			if err := s.upgradeHere(ctx); err != nil {
				return nil, 0, err
			}
			continue
		}
		if a.awaitTurn(ctx, tx, false) {
			continue
		}
		b, err := tx.batch()
		if err != nil {
			return nil, 0, err
		}
		fault.Point("store.commit")
		a.answered = time.Now()
		rev, err := s.d.Commit(ctx, b)
		switch {
		case err == nil:
			return tx, rev, nil
		case errors.Is(err, driver.ErrConflict) && a.guessed: // it lost to old data, not to somebody who is there now
		case errors.Is(err, driver.ErrConflict):
			conflicts++
			if err := s.pause(ctx, time.Millisecond, conflicts); err != nil {
				return nil, 0, a.final(err)
			}
			a.awaitTurn(ctx, tx, conflicts > 1)
		case driver.Refusal(err):
			return nil, 0, err
		case errors.Is(err, driver.ErrUntouched) && a.again(ctx):
		case unwritten(err), errors.Is(err, driver.ErrUntouched):
			return nil, 0, a.final(&readError{err})
		default:
			if rev, err = a.decide(ctx, tx, err); rev > 0 || err != nil {
				return tx, rev, err
			}
		}
	}
}

// attempt is the state of one Update or View over its repetitions.
type attempt struct {
	s         *Store
	need      driver.Query
	closed    bool // also if the store is closed to everyone else
	read      bool // it will not commit
	guess     bool // the next run may be on old data
	guessed   bool // the last run was
	older     bool // the last run was on records that were converted on the way
	sent      bool // a commit without receipt may have been applied
	failures  int
	conflicts int             // of affirmed
	began     time.Time       // [Tx.Began], once there was a run
	answered  time.Time       // when the store last answered, or when it began
	done      func(good bool) // ends its turn, if it has one
}

// run reads what is needed and runs fn until fn asks for nothing that was not
// read.
func (a *attempt) run(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	fresh := int64(0) // of a view that was read after the call
	for range maxReads {
		a.older = false
		q := a.need
		q.Keys = append([]string{metaKey}, q.Keys...)
		q.Since = fresh
		if a.guessed = a.guess && fresh == 0 && len(q.Ranges) == 0; a.guessed { // what Scan finds is not guarded
			q.Since, q.Guarded = 1, true
		} else {
			q.New = nil
		}
		if a.answered.IsZero() {
			a.answered = time.Now()
		}
		snap, err := a.s.d.Read(ctx, q)
		if a.guessed = a.guessed && snap.Old; !a.guessed {
			fresh = snap.Rev
		}
		if err != nil {
			return nil, &readError{err}
		}
		tx := newTx(snap, q)
		a.s.meta.Store(tx.known[metaKey].Rev)
		if err := a.s.checkMeta(tx); a.mayConvert(err) {
			if tx, err = a.readOlder(ctx, q); err != nil {
				return nil, err
			} else if tx == nil {
				continue
			}
		} else if err != nil && !a.passes(err) {
			return nil, err
		}
		if a.began.IsZero() {
			a.began = tx.Now()
		}
		tx.view, tx.began = a.read, a.began
		fault.Point("store.fn")
		err = fn(tx)
		if len(tx.missing.Keys)+len(tx.missing.Ranges) == 0 {
			a.s.slow.Store(a.older)
			return tx, err
		}
		a.need.Keys = append(a.need.Keys, tx.missing.Keys...)
		a.need.Ranges = append(a.need.Ranges, tx.missing.Ranges...)
	}
	return nil, fmt.Errorf("transaction still asks for more records after %d reads", maxReads)
}

// passes reports whether the attempt may work in a store that is closed.
func (a *attempt) passes(err error) bool {
	return a.closed && (errors.Is(err, ErrMoved) || errors.Is(err, ErrFilling) || errors.Is(err, driver.ErrOlder))
}

// mayConvert reports that err means an older format, and that the attempt may
// work on it.
func (a *attempt) mayConvert(err error) bool {
	return errors.Is(err, driver.ErrOlder) && !a.closed && a.s.converts()
}

// retryRead reports whether err is a failed read that is worth another try.
func (a *attempt) retryRead(ctx context.Context, err error) bool {
	r, ok := errors.AsType[*readError](err)
	if !ok || driver.Refusal(r.err) || ctx.Err() != nil {
		return false
	}
	return a.again(ctx)
}

// again waits before another attempt at a store that did not answer. It reports
// false after many attempts, or after a long time.
func (a *attempt) again(ctx context.Context) bool {
	a.failures++
	limit := a.s.o.Patience
	if limit <= 0 {
		limit = defaultPatience
	}
	return ctx.Err() == nil && a.failures < maxFailures && time.Since(a.answered) < limit && a.s.pause(ctx, 20*time.Millisecond, a.failures) == nil
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// unwritten reports whether a commit has written nothing, and may if repeated.
func unwritten(err error) bool {
	return errors.Is(err, driver.ErrFull) || errors.Is(err, driver.ErrNoTurn)
}

// readError marks an error of Read, or of an [unwritten] commit: nothing has
// happened.
type readError struct{ err error }

func (e *readError) Error() string {
	if e.answer() || errors.Is(e.err, ErrUnreachable) || unwritten(e.err) {
		return e.err.Error()
	}
	return ErrUnreachable.Error() + ": " + e.err.Error()
}

func (e *readError) Unwrap() []error {
	if e.answer() {
		return []error{e.err}
	}
	return []error{ErrUnreachable, e.err}
}

// answer reports whether the store was reached, or the caller went away.
func (e *readError) answer() bool { return driver.Refusal(e.err) || isContext(e.err) }

// pause waits with full jitter before the n-th repetition.
func (s *Store) pause(ctx context.Context, unit time.Duration, n int) error {
	return driver.Sleep(ctx, s.random(min(unit<<min(n, 10), 500*time.Millisecond))+1)
}

// random returns less than d. What a simulation makes of crypto/rand decides it,
// so that the simulation repeats itself.
func (s *Store) random(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.jitter.Int64N(int64(d)))
}

func clip(q driver.Query) driver.Query {
	return driver.Query{
		Keys:   slices.Clone(q.Keys),
		Ranges: slices.Clone(q.Ranges),
		New:    slices.Clone(q.New),
	}
}
