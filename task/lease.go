package task

import (
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
)

// What requests and answers of this package say about leases.
type (
	// AcquireRequest says who takes the tasks, for how long, and how long to wait.
	AcquireRequest = lease.AcquireRequest
	// Process is one whose death ends a lease: see [ThisProcess].
	Process = host.Process
	// Grant is what an AcquireRequest got.
	Grant = lease.Grant
	// KeyGrant is one key of a Grant.
	KeyGrant = lease.KeyGrant
	// TakenOver names an owner that a Grant replaced.
	TakenOver = lease.TakenOver
	// HeldError says who holds the task.
	HeldError = lease.HeldError
	// PoolInfo is what a HeldError says about a pool.
	PoolInfo = lease.PoolInfo
	// Lock is a lock as others see it.
	Lock = lease.Info
	// State of a lock: held, expired, dead.
	State = lease.State
	// Expiry is when a lease ends without a heartbeat. Zero means never.
	Expiry = lease.Expiry
	// OwnerError says that somebody else holds the task.
	OwnerError = lease.OwnerError
	// Lease is a grant that renews itself until it is released or lost.
	Lease = lease.Lease
)

// ThisProcess is the one that asks.
func ThisProcess() Process { return host.Self() }
