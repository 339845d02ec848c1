package local

import (
	"context"

	"github.com/tasklock/tasklock/store/driver"
)

// Holding is a driver's answer to whether all guards hold, and at which
// revision it looked.
type Holding func(ctx context.Context, guards []driver.Guard) (holds bool, rev int64, err error)

// Check answers a batch that writes nothing, which needs no lock.
func (h Holding) Check(ctx context.Context, b driver.Batch) (int64, error) {
	if err := b.Check(); err != nil {
		return 0, err
	}
	holds, rev, err := h(ctx, b.Guards)
	if err == nil && !holds {
		err = driver.ErrConflict
	}
	if err != nil {
		return 0, err
	}
	return rev, nil
}

// Wait is driver.Store's Wait: it listens first and looks afterwards, again and
// again, until a guard no longer holds.
func (h Holding) Wait(ctx context.Context, life *driver.Life, wake *Wake, guards []driver.Guard) error {
	done, err := life.Use()
	if err != nil {
		return err
	}
	defer done()
	living, stop := life.Living(ctx)
	defer stop()

	keys := make([]string, len(guards))
	for i, g := range guards {
		keys[i] = g.Key
	}
	sub := wake.Subscribe(keys)
	defer sub.Close()
	for {
		holds, _, err := h(living, guards)
		if err == nil && !holds {
			return nil
		}
		if err == nil {
			err = sub.Wait(living)
		}
		if err == nil {
			err = living.Err()
		}
		if err != nil {
			return life.Ended(ctx, err)
		}
	}
}
