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
	reads, records, bytes, commits, refused, writes, waits atomic.Int64
}

// Counts is what was asked of a store.
type Counts struct {
	Reads   int64 // calls of Read
	Records int64 // records that they returned
	Bytes   int64 // of their values
	Commits int64 // that were applied
	Refused int64 // commits that were not
	Writes  int64 // records that commits wrote or deleted
	Waits   int64 // calls of Wait
}

// NewCounted wraps a driver.
func NewCounted(d driver.Store) *Counted { return &Counted{Store: d} }

// Take returns the counts since the last call.
func (c *Counted) Take() Counts {
	return Counts{
		Reads: c.reads.Swap(0), Records: c.records.Swap(0), Bytes: c.bytes.Swap(0),
		Commits: c.commits.Swap(0), Refused: c.refused.Swap(0), Writes: c.writes.Swap(0), Waits: c.waits.Swap(0),
	}
}

func (c *Counted) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	snap, err := c.Store.Read(ctx, q)
	c.reads.Add(1)
	c.records.Add(int64(len(snap.Records)))
	for _, r := range snap.Records {
		c.bytes.Add(int64(len(r.Value)))
	}
	return snap, err
}

func (c *Counted) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	rev, err := c.Store.Commit(ctx, b)
	switch {
	case err != nil:
		c.refused.Add(1)
	case len(b.Writes) > 0:
		c.commits.Add(1)
		c.writes.Add(int64(len(b.Writes)))
	}
	return rev, err
}

func (c *Counted) Wait(ctx context.Context, guards []driver.Guard) error {
	c.waits.Add(1)
	return c.Store.Wait(ctx, guards)
}
