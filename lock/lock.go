// Package lock takes locks that expire when their holder dies, and gives each
// holder a fencing token.
package lock

import "github.com/tasklock/tasklock/internal/lease"

type (
	// A Locker takes locks for this process.
	Locker = lease.Locker
	// A Lease is what a Locker holds.
	Lease = lease.Lease
	// Options of a Locker.
	Options = lease.Options
	// HeldError says who holds a key.
	HeldError = lease.HeldError
)

var (
	// New returns a Locker.
	New = lease.New
	// ErrLost means that the lease is not the holder's any more.
	ErrLost = lease.ErrLost
	// Fence refuses a transaction of a holder that lost its lock.
	Fence = lease.Fence
)
