package lease

import (
	"time"

	"github.com/tasklock/tasklock/internal/host"
)

// WithClocks lets a holder see other clocks than those of the machine.
func WithClocks(r AcquireRequest, look func() (steady, wall time.Time)) AcquireRequest {
	r.now = func() host.Moment {
		steady, wall := look()
		return host.Moment{Awake: steady.Sub(started), Wall: wall.UnixNano()}
	}
	return r
}
