package lease

import (
	"context"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
)

// HoldOn is Hold for a holder that sees other clocks than those of the machine.
func HoldOn(ctx context.Context, st *store.Store, r AcquireRequest, look func() (steady, wall time.Time)) (*Lease, error) {
	return hold(ctx, st, r, func() host.Moment {
		steady, wall := look()
		return host.Moment{Awake: steady.Sub(started), Wall: wall.UnixNano()}
	})
}
