package lease

import (
	"context"
	"errors"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Keep renews a lease for as long as a process lives, and releases it when
// that has ended, if it still lives with that one: its owner may have tied it
// to another process since, and who keeps a parent's lease does not end it. It returns when the lease has ended, by whatever means, or
// with ctx. What the store says and can pass is asked again: a late renewal
// counts while nobody else has taken over.
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
// time is over. The store is asked as seldom as it can be.
func keepWatch(ctx context.Context, st *store.Store, p host.Process, guards []driver.Guard, next time.Duration) error {
	watch := leaseRecord{Process: p}
	for until := time.Now().Add(next); !ended(p) && time.Now().Before(until); {
		left := time.Until(until)
		if !watch.watchable() { // its death cannot be proved, only seen
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

// ended is weaker than proof: whoever keeps a lease for a process runs beside
// it, so that no answer about it from here means that it is gone.
func ended(p host.Process) bool {
	now, err := host.Find(p.PID)
	return err != nil || now.Start != p.Start
}

// keepOnce renews, and says when to do so again unless the locks change.
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

// changed reports whether a guard does not hold any more: a wait may end early.
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
