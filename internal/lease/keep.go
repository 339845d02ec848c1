package lease

import (
	"context"
	"errors"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Keep renews a lease while a process lives, and releases it when the process has
// ended. It does not release a lease that its owner has tied to another process
// since, nor a parent's lease. It returns when the lease has ended, or with ctx.
// It repeats after a trouble of the store that can pass: a late renewal counts
// while nobody else has taken over.
func Keep(ctx context.Context, st *store.Store, lease string, p host.Process) error {
	owner := leaseOwner(lease)
	for {
		if ended(p) {
			r := release{ReleaseRequest: ReleaseRequest{Owner: owner, Lease: lease, Reason: "its process has ended"}, process: &p, leave: true}
			_, err := r.run(ctx, st)
			return err
		}
		next, guards, err := keepOnce(ctx, st, owner, lease)
		switch {
		case errors.Is(err, ErrLost):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !store.MayPass(err):
			return err
		case err != nil:
			next = time.Second
		}
		if err := keepWatch(ctx, st, p, guards, next); err != nil {
			return err
		}
	}
}

// keepWatch returns when the process has ended, the locks have changed, or the
// time is over. It asks the store as seldom as possible.
func keepWatch(ctx context.Context, st *store.Store, p host.Process, guards []driver.Guard, next time.Duration) error {
	watch := leaseRecord{Process: p}
	for until := time.Now().Add(next); !ended(p) && time.Now().Before(until); {
		left := time.Until(until)
		if !watch.watchable() { // its death cannot be proved, but it can be seen
			left = min(left, time.Second)
		}
		if err := pauseFor(ctx, st, []blocker{{guards: guards, lease: watch, ends: left}}, left); err != nil {
			return err
		}
		if len(guards) == 0 || changed(ctx, st, guards) {
			return nil
		}
	}
	return nil
}

// ended is weaker than proof: the process that keeps a lease runs next to the
// other one, so that no answer about it means that it is gone.
func ended(p host.Process) bool {
	now, err := host.Find(p.PID)
	return err != nil || now.Start != p.Start
}

// keepOnce renews, and says when to renew again unless the locks change.
func keepOnce(ctx context.Context, st *store.Store, owner, lease string) (next time.Duration, guards []driver.Guard, err error) {
	_, err = st.Update(ctx, driver.Query{Keys: []string{leaseKind + lease}}, func(tx *store.Tx) error {
		l, err := heartbeat{by: owner}.renew(tx, lease)
		if err != nil {
			return err
		}
		next, guards = l.window/3, nil
		for _, key := range l.Keys {
			lk, err := getLock(tx, key)
			if err != nil {
				return err
			}
			guards = append(guards, driver.Guard{Key: lk.Key, Rev: lk.Rev})
		}
		return nil
	})
	return max(next, MinTTL/3), guards, err
}

// changed reports whether a guard no longer holds: a wait may end early.
func changed(ctx context.Context, st *store.Store, guards []driver.Guard) bool {
	var keys []string
	for _, g := range guards {
		keys = append(keys, g.Key)
	}
	found := false
	err := st.View(ctx, driver.Query{Keys: keys}, func(tx *store.Tx) error {
		found = false
		for _, g := range guards {
			lk, err := store.Get[lockRecord](tx, g.Key)
			if err != nil {
				return err
			}
			found = found || lk.Rev != g.Rev
		}
		return nil
	})
	return err == nil && found
}
