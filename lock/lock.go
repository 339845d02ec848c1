package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// Options of a Locker. Every zero field means its default.
type Options struct {
	// Owner is what others see as the holder. The default names the machine and
	// the process.
	Owner string
	// TTL is how long the store waits for a heartbeat before it may give the lock
	// away. The default is 5 minutes, and an hour in a git store.
	TTL time.Duration
}

// A Locker takes locks in one store. Many goroutines may share it: their leases
// are independent of each other. A call that gets the context of a lease is part
// of the work under that lease: it uses what the lease holds, and if waiting
// would never end, because holders wait for each other, the youngest waiter gets
// a [*DeadlockError]. Leases with independent contexts may wait for each other
// unseen, until the wait is over.
type Locker struct {
	st  *store.Store
	opt Options

	mu    sync.Mutex
	slots map[string][]int // that its leases have released, by pool: the next ones begin there
}

// New returns a Locker. Nil options mean defaults.
func New(st *store.Store, opt *Options) *Locker {
	l := &Locker{st: st, slots: map[string][]int{}}
	if opt != nil {
		l.opt = *opt
	}
	if l.opt.Owner == "" {
		l.opt.Owner = fmt.Sprintf("%s-%d-%s", host.Name(), host.Self().PID, lease.NewID())
	}
	return l
}

// AcquireOptions of one call. Every zero field means its default.
type AcquireOptions struct {
	// Also names more keys: the lease holds all of them, or there is no lease.
	Also []string
	// Slots is the size of the pools among the keys ("pool:tests"): it creates a
	// pool, or must be the size that it has. The default needs a pool that exists.
	// Versions of tasklock from before pools cannot use a store that has a pool.
	Slots int
	// Take is how many slots of a pool the lease holds. The default is one. [TakeAll]
	// takes all of them: then nobody else has one.
	Take int
	// Reason tells others what the lock is for.
	Reason string
	// Wait is how long to wait for the keys. The default is 30 minutes.
	// TryAcquire does not wait.
	Wait time.Duration
}

// WithLock runs fn while it holds the key, and releases the key when fn
// returns or panics. If the lease is lost, the context of fn ends with a cause
// that is [ErrLost], and WithLock returns ErrLost besides the error of fn.
func (l *Locker) WithLock(ctx context.Context, key string, opt *AcquireOptions, fn func(context.Context, *Lease) error) (err error) {
	held, err := l.Acquire(ctx, key, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Release(ctx)) }()
	return fn(held.Context(), held)
}

// Acquire waits for the key and holds it until [Lease.Release]. Waiters get the
// key in the order in which they came. If the wait ends without the key, or ctx
// ends, the error is a [*HeldError]; in the latter case it is also that of ctx.
func (l *Locker) Acquire(ctx context.Context, key string, opt *AcquireOptions) (*Lease, error) {
	r := l.request(ctx, key, opt)
	if r.Wait == 0 {
		r.Wait = 30 * time.Minute
	}
	var last *HeldError
	r.Waiting = func(e HeldError) { last = &e }
	start := time.Now()
	held, err := l.hold(ctx, r)
	if err != nil && ctx.Err() != nil && last != nil {
		last.Waited, last.Position = time.Since(start), 0
		return nil, fmt.Errorf("%w: %w", last, err)
	}
	return held, err
}

// TryAcquire takes the key or returns a [*HeldError] at once.
func (l *Locker) TryAcquire(ctx context.Context, key string, opt *AcquireOptions) (*Lease, error) {
	r := l.request(ctx, key, opt)
	r.Wait = 0
	return l.hold(ctx, r)
}

func (l *Locker) request(ctx context.Context, key string, opt *AcquireOptions) lease.AcquireRequest {
	if opt == nil {
		opt = &AcquireOptions{}
	}
	owner := lease.HolderOf(ctx)
	if owner == "" {
		owner = l.opt.Owner
	}
	return lease.AcquireRequest{
		Keys: append([]string{key}, opt.Also...), Owner: owner, TTL: l.opt.TTL, Wait: opt.Wait, Reason: opt.Reason,
		Slots: opt.Slots, Take: opt.Take,
	}
}

func (l *Locker) hold(ctx context.Context, r lease.AcquireRequest) (*Lease, error) {
	r.Near = l.near(r.Keys[0])
	held, err := lease.Hold(ctx, l.st, r)
	if err != nil {
		return nil, err
	}
	return &Lease{held: held, by: l}, nil
}

// near is a slot that a lease of this Locker has released, or 0.
func (l *Locker) near(pool string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	had := l.slots[pool]
	if len(had) == 0 {
		return 0
	}
	l.slots[pool] = had[:len(had)-1]
	return had[len(had)-1]
}

// left remembers the slots of a lease that has ended.
func (l *Locker) left(g lease.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range g.Keys {
		if had := l.slots[k.Name]; k.Slot > 0 && !k.Reentrant && len(had) < lease.MaxSlots {
			l.slots[k.Name] = append(had, k.Slot)
		}
	}
}

// IsLocked reports whether somebody holds the key; of a pool, whether no slot is free.
func (l *Locker) IsLocked(ctx context.Context, key string) (bool, error) {
	c, err := lease.Check(ctx, l.st, lease.CheckRequest{Key: key})
	return c.Locked, err
}

// A Lease is a lock that this process holds and renews in the background, until
// it releases the lease or loses it.
type Lease struct {
	held *lease.Lease
	by   *Locker
}

// Token is the lease's fencing token. A later lease on the same key has a larger
// one, so whatever the lock protects can refuse an old holder. With several keys
// it is the largest of theirs. For a write in the same store see [Lease.Fence].
func (l *Lease) Token() int64 { return l.held.Token() }

// Slots are the numbers of the slots that the lease holds, if it holds a pool: for
// the name of a port or a database that belongs to the slot.
func (l *Lease) Slots() []int { return l.held.Grant().Slots() }

// Owner is the name under which the lease is held: that of the Locker, and a
// part that is different for each lease.
func (l *Lease) Owner() string { return l.held.Owner() }

// Context ends when the lease is lost, with a cause that is [ErrLost], and when
// it is released. It ends before the store can give the key to somebody else.
func (l *Lease) Context() context.Context { return l.held.Context() }

// Release releases the keys, even if ctx has ended. It returns [ErrLost] if
// the lease was lost meanwhile. Calling it again returns the same.
func (l *Lease) Release(ctx context.Context) error {
	err := l.held.Release(ctx)
	if err == nil {
		l.by.left(l.held.Grant())
	}
	return err
}

// Fence makes a transaction in the same store fail with [ErrLost] unless the lease
// still holds all its keys: the check and the writes are one commit.
func (l *Lease) Fence(tx *store.Tx) error {
	for _, k := range l.held.Grant().Keys {
		if err := lease.Fence(tx, k.Key, k.Token); err != nil {
			return err
		}
	}
	return nil
}

// Fence is [Lease.Fence] for a process that works for the holder and knows only
// the key and its token.
func Fence(tx *store.Tx, key string, token int64) error { return lease.Fence(tx, key, token) }

// ErrLost means that the holder does not have the lease any more: it expired,
// or somebody broke the lock.
var ErrLost = lease.ErrLost

// TakeAll is the [AcquireOptions.Take] of a lease that wants a pool for itself.
const TakeAll = lease.TakeAll

type (
	// PoolSizeError says that the pool has another size than the caller named, that
	// it has fewer slots than the caller takes, or that it does not exist.
	PoolSizeError = lease.PoolSizeError
	// PoolInfo is what a HeldError says about a pool: its size and who holds slots.
	PoolInfo = lease.PoolInfo
	// HeldError says who holds the key, on which machine and in which process,
	// since when, until when, and for what reason.
	HeldError = lease.HeldError
	// Info is what a HeldError says about the lock.
	Info = lease.Info
	// State of a lock: held, expired, dead.
	State = lease.State
	// Expiry is when a lock ends without a heartbeat. Zero means never.
	Expiry = lease.Expiry
	// DeadlockError names holders who wait for each other, in its Chain.
	DeadlockError = lease.DeadlockError
	// DeadlockLink is one of them: Owner waits for Key, which the next one holds.
	DeadlockLink = lease.DeadlockLink
)
