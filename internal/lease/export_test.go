package lease

import "time"

// WithClocks lets a holder see other clocks than those of the machine.
func WithClocks(r AcquireRequest, look func() (steady, wall time.Time)) AcquireRequest {
	r.now = func() moment {
		steady, wall := look()
		return moment{steady: steady, wall: wall}
	}
	return r
}
