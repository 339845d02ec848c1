package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// ErrFlaky is the error of every fault that a [Flaky] injects. Like a cut
// connection, it says nothing about the outcome of a Commit.
var ErrFlaky = errors.New("injected fault")

// FlakyOptions are the faults of a [Flaky], each with its probability from 0
// to 1. The zero value injects none.
type FlakyOptions struct {
	Seed uint64 // the same seed and the same order of calls give the same faults

	// At most one of these happens to a Commit.
	Before float64 // the request is lost: ErrFlaky, nothing applied
	After  float64 // the reply is lost: ErrFlaky, applied
	Late   float64 // ErrFlaky at once, applied after a delay, if its guards hold then
	Twice  float64 // the request arrives twice, at once; the first answer is returned

	Read float64 // Read gives ErrFlaky
	Old  float64 // Read answers from before the call if Query.Since allows it
	Mix  float64 // such an answer has each record from another view, and none of Query.New, if Query.Guarded allows it

	Delay    float64       // any call starts late
	MaxDelay time.Duration // by up to this much; 2 ms unless set. Late uses it too

	EarlyWait float64 // Wait returns nil though nothing changed, as the contract allows
	LostWait  float64 // Wait sleeps until its context ends, whatever changes
}

// Flaky behaves like a store across a bad network: it keeps the promises of
// package driver and uses every freedom that they leave, plus LostWait, against
// which callers need a timer.
type Flaky struct {
	store driver.Store
	opts  FlakyOptions

	mu       sync.Mutex
	rand     *rand.Rand
	injected int
	memory   []driver.Snapshot // all records at earlier Reads, the last one first
	late     sync.WaitGroup
}

var _ driver.Store = (*Flaky)(nil)

// NewFlaky wraps s.
func NewFlaky(s driver.Store, opts FlakyOptions) *Flaky {
	if opts.MaxDelay == 0 {
		opts.MaxDelay = 2 * time.Millisecond
	}
	return &Flaky{store: s, opts: opts, rand: rand.New(rand.NewPCG(opts.Seed, 0))}
}

// Injected returns the number of faults so far, without delays: a test that had
// none has shown nothing.
func (f *Flaky) Injected() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.injected
}

// Settle waits until every late commit has been applied or refused.
func (f *Flaky) Settle() { f.late.Wait() }

// Read implements driver.Store.
func (f *Flaky) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	old := f.remembered(ctx, q)
	switch p := f.opts.Old; f.decide(ctx, f.opts.Read, p*float64(len(old))) {
	case 0:
		return driver.Snapshot{}, fmt.Errorf("read: %w", ErrFlaky)
	case 1:
		return old[0], nil
	}
	if f.opts.Old > 0 {
		if all, err := f.store.Read(ctx, driver.Query{Ranges: []driver.Range{{}}}); err == nil {
			f.mu.Lock()
			f.memory = append([]driver.Snapshot{all}, f.memory[:min(len(f.memory), 7)]...)
			f.mu.Unlock()
		}
	}
	return f.store.Read(ctx, q)
}

// maxLate is how late the clock of an old answer may be.
const maxLate = 5 * time.Second

// remembered is the answer to a query from earlier views, if that is allowed.
func (f *Flaky) remembered(ctx context.Context, q driver.Query) []driver.Snapshot {
	if f.opts.Old == 0 || q.Since == 0 || len(q.Ranges) > 0 {
		return nil
	}
	current, err := f.store.Read(ctx, driver.Query{})
	f.mu.Lock()
	defer f.mu.Unlock()
	views := slices.DeleteFunc(slices.Clone(f.memory), func(v driver.Snapshot) bool {
		return v.Rev < q.Since || current.Now.Sub(v.Now) > maxLate
	})
	if err != nil || len(views) == 0 {
		return nil
	}
	mix := q.Guarded && f.rand.Float64() < f.opts.Mix
	old := driver.Snapshot{Rev: views[0].Rev, Now: views[0].Now, Old: true}
	for _, key := range q.Keys {
		view := views[0]
		if mix {
			view = views[f.rand.IntN(len(views))]
			old.Rev = min(old.Rev, view.Rev)
		}
		at := slices.IndexFunc(view.Records, func(r driver.Record) bool { return r.Key == key })
		if at < 0 || mix && slices.Contains(q.New, key) {
			continue
		}
		r := view.Records[at]
		r.Value = slices.Clone(r.Value)
		old.Records = append(old.Records, r)
	}
	return []driver.Snapshot{old}
}

// Commit implements driver.Store.
func (f *Flaky) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	switch f.decide(ctx, f.opts.Before, f.opts.After, f.opts.Late, f.opts.Twice) {
	case 0:
		return 0, fmt.Errorf("commit, request lost: %w", ErrFlaky)
	case 1:
		rev, err := f.store.Commit(ctx, b)
		return 0, fmt.Errorf("commit, reply lost (%d, %v): %w", rev, err, ErrFlaky)
	case 2:
		delay := f.delay()
		f.late.Go(func() {
			time.Sleep(delay)
			f.store.Commit(context.WithoutCancel(ctx), b) // the caller is gone
		})
		return 0, fmt.Errorf("commit, request late: %w", ErrFlaky)
	case 3:
		rev, err := f.store.Commit(ctx, b)
		f.store.Commit(ctx, b) // the first answer is the answer
		return rev, err
	}
	return f.store.Commit(ctx, b)
}

// Wait implements driver.Store.
func (f *Flaky) Wait(ctx context.Context, guards []driver.Guard) error {
	switch f.decide(ctx, f.opts.EarlyWait, f.opts.LostWait) {
	case 0:
		return ctx.Err()
	case 1:
		<-ctx.Done()
		return ctx.Err()
	}
	return f.store.Wait(ctx, guards)
}

// Close settles, and closes the store it wraps.
func (f *Flaky) Close() error {
	f.Settle()
	return f.store.Close()
}

// decide delays the call if it is its turn, and returns which of the faults with
// these probabilities happens, or -1. With an ended context it injects nothing:
// the store itself answers.
func (f *Flaky) decide(ctx context.Context, probabilities ...float64) int {
	f.mu.Lock()
	x, fault := f.rand.Float64(), -1
	delayed := f.rand.Float64() < f.opts.Delay
	for i, p := range probabilities {
		if x < p {
			fault = i
			break
		}
		x -= p
	}
	if ctx.Err() != nil {
		fault = -1
	}
	if fault >= 0 {
		f.injected++
	}
	f.mu.Unlock()
	if delayed {
		time.Sleep(f.delay())
	}
	return fault
}

func (f *Flaky) delay() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.rand.Int64N(int64(f.opts.MaxDelay) + 1))
}
