package runner

import (
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
)

// What [Options] and [Result] say about the lease of a command.
type (
	// AcquireRequest says which keys to take, for whom, and how long to wait.
	AcquireRequest = lease.AcquireRequest
	// Process is one whose death ends the lease; Run fills in this one.
	Process = host.Process
	// HeldError says who blocks the keys.
	HeldError = lease.HeldError
	// PoolInfo is what a HeldError says about a pool.
	PoolInfo = lease.PoolInfo
	// Lock is a lock as others see it.
	Lock = lease.Info
	// State of a lock: held, expired, dead.
	State = lease.State
	// Grant is what an AcquireRequest got.
	Grant = lease.Grant
	// KeyGrant is one key of a Grant.
	KeyGrant = lease.KeyGrant
	// TakenOver names an owner that a Grant replaced.
	TakenOver = lease.TakenOver
	// Expiry is when a lease ends without a heartbeat. Zero means never.
	Expiry = lease.Expiry
	// Lease is a grant that renews itself until it is released or lost.
	Lease = lease.Lease
)
