package lease

import (
	"context"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// blocker keeps a request from one of its keys: the holder, or a ticket ahead.
type blocker struct {
	held   HeldError
	guards []driver.Guard // wait until one of these changes,
	lease  leaseRecord    // or this lease's process dies,
	ends   time.Duration  // or this much time has passed
	queued bool           // it is a ticket ahead
}

// pauseFor returns when one of the blockers may be gone: it changed, its time is
// over, its process died, or atMost has passed.
func pauseFor(ctx context.Context, st *store.Store, blocked []blocker, atMost time.Duration) error {
	var guards []driver.Guard
	var watch []leaseRecord
	for _, b := range blocked {
		guards = append(guards, b.guards...)
		atMost = min(atMost, b.ends+time.Millisecond)
		if b.lease.watchable() {
			watch = append(watch, b.lease)
		}
	}
	wctx, cancel := context.WithTimeout(ctx, max(atMost, time.Millisecond))
	defer cancel()
	changed := make(chan error, 1)
	guards = guards[:min(len(guards), driver.MaxGuards)] // all must go: a change of the first ones is enough
	go func() { changed <- st.Wait(wctx, guards) }()
	ended := make(chan struct{}, len(watch))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	if stop, ok := onDeath(watch, ended); ok {
		tick.Stop()
		defer stop()
	}
	for {
		select {
		case err := <-changed:
			if err == nil || wctx.Err() != nil && ctx.Err() == nil {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			<-wctx.Done() // the store cannot wait now: look again later
			return context.Cause(ctx)
		case <-ended:
			tick.Reset(time.Second) // its group may live on
		case <-tick.C:
		}
		if slices.ContainsFunc(watch, leaseRecord.gone) {
			cancel()
			<-changed
			return nil
		}
	}
}

// onDeath lets the kernel tell when a process of the leases ends. It reports false if
// the kernel cannot tell of each: then a waiter looks every second, which is most of
// what waiting costs.
func onDeath(watch []leaseRecord, ended chan<- struct{}) (stop func(), ok bool) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for _, l := range watch {
		if l.Process == host.Self() {
			continue // who waits lives
		}
		s, ok := l.OnEnd(func() { ended <- struct{}{} })
		if !ok {
			stop()
			return nil, false
		}
		stops = append(stops, s)
	}
	return stop, true
}

// Await returns when one of the guards may no longer hold, when one of the keys
// may have become free (released, expired, its process died), or after atMost. It
// may return early.
func Await(ctx context.Context, st *store.Store, keys []string, atMost time.Duration, guards ...driver.Guard) error {
	watched := []blocker{{guards: guards, ends: atMost}}
	if keys = withSlots(keys); len(keys) > 0 {
		err := st.View(ctx, NeedLook(keys...), func(tx *store.Tx) error {
			watched = watched[:1]
			if err := WantLook(tx, keys...); err != nil {
				return err
			}
			for _, key := range keys {
				lk, err := getLock(tx, key)
				if err != nil {
					return err
				}
				if !lk.Exists() {
					continue
				}
				ls, err := getLease(tx, lk.Value.Lease)
				if err != nil {
					return err
				}
				watched = append(watched, blocker{
					guards: []driver.Guard{{Key: lk.Key, Rev: lk.Rev}}, lease: ls.Value, ends: ls.Value.ttl() - ls.Age,
				})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return pauseFor(ctx, st, watched, atMost)
}
