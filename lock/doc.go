// Package lock takes locks that many processes share: in a SQLite file, a
// folder, a git branch, PostgreSQL or etcd.
//
//	import _ "github.com/tasklock/tasklock/store/sqlitestore" // opens sqlite: URLs
//
//	st, err := store.Open(ctx, "sqlite:locks.db", &store.OpenOptions{Create: true})
//	...
//	locker := lock.New(st, nil)
//	err = locker.WithLock(ctx, "deploy", nil, func(ctx context.Context, l *lock.Lease) error {
//		return deploy(ctx, l.Token())
//	})
//
// A program links the drivers that it imports, and no others.
//
// # Guarantee
//
// At every instant the store names at most one holder of a key. Each [Lease] has
// a token, and a later lease on the same key has a larger one. Waiters get a key
// in the order in which they came.
//
// A Lease renews itself. Its context ends before the store can give the key to
// somebody else, by the clock of this process, so work that obeys its context
// does not overlap with that of the next holder.
//
// # Limit
//
// No lock can stop a process that sleeps through its deadline and then writes
// somewhere else. Give the token to whatever you write to, and let that refuse a
// token smaller than the largest it has seen. A write in the same store needs no
// more than [Lease.Fence].
//
// # Failure
//
// If a holder dies, the next waiter gets the key when the ttl is over, or at once
// where the store can prove the death: on the same machine, with the process
// gone. If a holder cannot reach the store, it tries again until its time is
// over; then its context ends with the cause [ErrLost]. If somebody breaks the
// lock, the holder learns of it within seconds. [Lease.Release] and
// [Locker.WithLock] return ErrLost if the lease was lost.
//
// "No" differs from "don't know". A [*HeldError] or a [*DeadlockError] is an
// answer. [store.ErrUnreachable] and [store.ErrUnknown] are not: the key may be
// free or held.
//
// # Beside other libraries
//
// The same job with bsm/redislock (v0.10), which needs Redis:
//
//	l, err := redislock.New(client).Obtain(ctx, "deploy", time.Minute, &redislock.Options{
//		RetryStrategy: redislock.LinearBackoff(time.Second),
//	})
//	...
//	defer l.Release(ctx)
//	return deploy(ctx) // and call l.Refresh before each minute is over
//
// With cirello.io/pglock (v1.16), which needs PostgreSQL:
//
//	c, err := pglock.New(db, pglock.WithLeaseDuration(time.Minute))
//	...
//	return c.Do(ctx, "deploy", func(ctx context.Context, l *pglock.Lock) error {
//		return deploy(ctx, l.RecordVersionNumber())
//	})
//
// With go.etcd.io/etcd/client/v3/concurrency (v3.7), which needs etcd:
//
//	s, err := concurrency.NewSession(client, concurrency.WithTTL(60))
//	...
//	defer s.Close()
//	m := concurrency.NewMutex(s, "/deploy")
//	if err := m.Lock(ctx); err != nil {
//		return err
//	}
//	defer m.Unlock(ctx)
//	return deploy(ctx, m.Header().Revision) // and stop when s.Done() is closed
//
// What each of them does:
//
//	             redislock             pglock                   etcd concurrency         lock
//	renews       the caller does       in the background        in the background        in the background
//	expires      by Redis's clock      when a waiter saw no     by the leader's clock    by the store's clock, or at once
//	                                   change for a lease                                if the holder died on this machine
//	holder that  learns it from the    context of Do ends       s.Done() closes when     context ends before the key can
//	loses it     next Refresh          after a failed           the session is over;     be given away, with cause ErrLost;
//	                                   heartbeat; no deadline   Unlock returns nil       Release returns ErrLost
//	token        random: tells who,    grows, and changes at    a revision: grows        a revision: grows, and stays for
//	             not who is later      each heartbeat                                    the lease; Fence checks it
//	waiting      asks again, in no     asks again once a        in order, woken          in order, woken (git: asks again)
//	             order                 lease, in no order
//	deadlock     not seen              not seen                 not seen                 the youngest waiter gets an error
//	refusal      ErrNotObtained        ErrNotAcquired           ErrLocked, or the        HeldError: who, since when, until
//	                                                            error of the context     when, why
//	several keys all or nothing        one by one               one by one               all or nothing
//
// Each of the others is smaller and faster where its server already runs and a
// lock is all you need: redislock takes one round trip to Redis.
package lock
