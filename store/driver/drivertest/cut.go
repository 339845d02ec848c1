package drivertest

import (
	"context"

	"github.com/tasklock/tasklock/store/driver"
)

// Cut is a connection to Store that is cut during its first commit, and for good: its
// caller learns nothing, as a process that dies there.
type Cut struct {
	driver.Store
	Applied bool // the store got the commit

	Sent *driver.Batch // the commit; a test may deliver it late
}

// Commit sends the batch, if the store gets it, and cuts the connection.
func (c *Cut) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if c.Sent == nil {
		c.Sent = &b
		if c.Applied {
			if _, err := c.Store.Commit(ctx, b); err != nil {
				return 0, err
			}
		}
	}
	return 0, ErrFlaky
}

// Read fails once the connection is cut.
func (c *Cut) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	if c.Sent != nil {
		return driver.Snapshot{}, ErrFlaky
	}
	return c.Store.Read(ctx, q)
}
