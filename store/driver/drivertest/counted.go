package drivertest

import (
	"context"
	"sync/atomic"

	"github.com/tasklock/tasklock/store/driver"
)

// Counted is a driver that counts what is asked of it. Tests of growth compare
// these counts, which depend on no machine, where a time would.
type Counted struct {
	driver.Store
	reads, records, commits, writes atomic.Int64
}

// Counts is what was asked of a store.
type Counts struct {
	Reads   int64 // calls of Read
	Records int64 // records that they returned
	Commits int64 // that were applied
	Writes  int64 // records that they wrote or deleted
}

// NewCounted wraps a driver.
func NewCounted(d driver.Store) *Counted { return &Counted{Store: d} }

// Take returns the counts since the last call.
func (c *Counted) Take() Counts {
	return Counts{c.reads.Swap(0), c.records.Swap(0), c.commits.Swap(0), c.writes.Swap(0)}
}

func (c *Counted) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	snap, err := c.Store.Read(ctx, q)
	c.reads.Add(1)
	c.records.Add(int64(len(snap.Records)))
	return snap, err
}

func (c *Counted) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	rev, err := c.Store.Commit(ctx, b)
	if err == nil && len(b.Writes) > 0 {
		c.commits.Add(1)
		c.writes.Add(int64(len(b.Writes)))
	}
	return rev, err
}
