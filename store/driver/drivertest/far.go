package drivertest

import (
	"context"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// FarRead is how long a read of a distant store takes.
const FarRead = 3 * time.Millisecond

// Far is a [Strict] store with a distant server: its clock has moved on at each
// read. Each run of a transaction function sees another time, so a function
// whose records depend on the time never has all that it asks for.
type Far struct {
	*Strict
	step func()
}

// NewFar wraps a driver for a test. step moves the clock on; nil: each read
// takes [FarRead], which costs nothing in a bubble of package synctest.
func NewFar(t Reporter, d driver.Store, step func()) *Far {
	if step == nil {
		step = func() { time.Sleep(FarRead) }
	}
	return &Far{Strict: NewStrict(t, d), step: step}
}

func (f *Far) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	f.step()
	return f.Strict.Read(ctx, q)
}

// Rerun is a [Far] store for one caller at a time. It refuses each commit once, as
// if another commit had been faster, and fails its test if the second run of the
// function asks for records that the first did not need, though only the time
// has changed.
type Rerun struct {
	*Far
	last    driver.Query // the last read
	refused bool         // the last commit was, and last is what its transaction had read
}

// NewRerun wraps a driver for a test, see [NewFar].
func NewRerun(t Reporter, d driver.Store, step func()) *Rerun {
	return &Rerun{Far: NewFar(t, d, step)}
}

func (r *Rerun) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	again := r.refused && begins(q.Keys, r.last.Keys) && begins(q.Ranges, r.last.Ranges)
	keys, ranges := len(r.last.Keys), len(r.last.Ranges)
	if again && len(q.Keys)+len(q.Ranges) > keys+ranges {
		r.t.Errorf("the second run of a transaction asks for %v %v and the first did not: what it asks for depends on the time or on chance", q.Keys[keys:], q.Ranges[ranges:])
	}
	r.refused = again // else it is another transaction
	r.last = driver.Query{Keys: slices.Clone(q.Keys), Ranges: slices.Clone(q.Ranges)}
	return r.Far.Read(ctx, q)
}

func (r *Rerun) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if r.refused = !r.refused; r.refused {
		return 0, driver.ErrConflict
	}
	return r.Far.Commit(ctx, b)
}
