package runner

import "github.com/tasklock/tasklock/internal/lease"

// What [Options] and [Result] say about the lease of a command.
type (
	// AcquireRequest says which keys to take, for whom, and how long to wait.
	AcquireRequest = lease.AcquireRequest
	// Grant is what an AcquireRequest got.
	Grant = lease.Grant
	// Lease is a grant that renews itself until it is released or lost.
	Lease = lease.Lease
)
