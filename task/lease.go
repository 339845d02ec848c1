package task

import "github.com/tasklock/tasklock/internal/lease"

// What requests and answers of this package say about leases.
type (
	// AcquireRequest says who takes the tasks, for how long, and how long to wait.
	AcquireRequest = lease.AcquireRequest
	// Grant is what an AcquireRequest got.
	Grant = lease.Grant
	// Lock is a lock as others see it.
	Lock = lease.Info
	// OwnerError says that somebody else holds the task.
	OwnerError = lease.OwnerError
	// Lease is a grant that renews itself until it is released or lost.
	Lease = lease.Lease
)
