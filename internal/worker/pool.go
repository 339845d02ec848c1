package worker

import (
	"context"
	"errors"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// A runner with a pool takes a slot together with each task, in one commit. If the
// pool is full it waits in the pool's queue, as everybody does, but only while a task
// is ready. It then has the slot before the task, and claims under it; if no task is
// ready any more, it gives the slot back.

// checkPool makes sure that the pool exists.
func (w *worker) checkPool(ctx context.Context) (err error) {
	if w.o.Pool != "" {
		w.pool, err = lease.CheckPool(ctx, w.st, w.o.Pool)
	}
	return err
}

func (w *worker) poolName() string {
	_, name := lease.KindOf(w.pool)
	return name
}

// holder is the owner under which the next key is taken: it may use the section and
// the slot that the runner has. A section is never taken before the slot that the
// runner waited for.
func (w *worker) holder() string {
	switch {
	case w.section != nil:
		return w.section.Owner()
	case w.slot != nil:
		return w.slot.Owner()
	}
	return w.owner
}

// waitForSlot waits in the queue of the pool. Nobody needs a section meanwhile, so
// the runner leaves the one that it has.
func (w *worker) waitForSlot(r lease.AcquireRequest, full *lease.HeldError) error {
	if w.section != nil {
		w.leaveSection("Releasing section lock on %s until a slot is free", w.sectionName)
	}
	w.leaveSlot() // lost
	w.say(LogEntry{Event: "waiting"}, "No slot of pool %s is free (%d of %d used), waiting for one...", full.Pool.Pool, full.Pool.Used, full.Pool.Size)
	ctx, giveUp := context.WithCancelCause(w.Soft)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.giveUpIfNothingReady(ctx, giveUp)
	}()
	r.Keys, r.Owner, r.Wait = []string{w.pool}, w.owner, lease.MaxTTL
	slot, err := lease.Hold(ctx, w.st, r)
	none, nothing := errors.AsType[*task.NothingReadyError](context.Cause(ctx))
	giveUp(nil)
	<-watched
	switch {
	case err == nil:
		w.slot = slot
		w.say(LogEntry{Event: "slot acquired", Token: slot.Token()}, "Acquired %s", slot.Grant().Keys[0].Key)
		return nil
	case w.Soft.Err() != nil:
		return errStopped
	case nothing:
		return none
	}
	return err
}

// giveUpIfNothingReady ends a wait for a slot when nothing is left to do with it.
func (w *worker) giveUpIfNothingReady(ctx context.Context, giveUp context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAgain):
		}
		if none, nothing := errors.AsType[*task.NothingReadyError](w.look(ctx)); nothing {
			giveUp(none)
			return
		}
	}
}

// lookAgain is how often a runner in the queue of its pool looks for a ready task.
const lookAgain = 2 * time.Second

// slots are the slot that was taken with the task or before it, and its token. The end of
// the task releases it in the same commit.
func (run *taskRun) slots() map[string]int64 {
	grants := run.lease.Grant().Keys
	if run.w.slot != nil {
		grants = append(grants, run.w.slot.Grant().Keys...)
	}
	slots := map[string]int64{}
	for _, k := range grants {
		if pool, _, ok := lease.SlotOf(k.Key); ok && pool == run.w.pool {
			slots[k.Key] = k.Token
		}
	}
	return slots
}

// leavePool gives the slot back if the end of the task did not: somebody else ended it,
// or nothing was claimed.
func (run *taskRun) leavePool() {
	w := run.w
	if w.pool == "" {
		return
	}
	if run.lease != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Soft), w.o.TTL)
		defer cancel()
		_, err := lease.Release(ctx, w.st, lease.ReleaseRequest{Owner: run.lease.Owner(), Lease: run.lease.Grant().LeaseID})
		w.logSlot(err)
	}
	w.leaveSlot()
}

// leaveSlot gives the slot back that the runner waited for.
func (w *worker) leaveSlot() {
	if w.slot != nil {
		w.logSlot(w.slot.Release(context.WithoutCancel(w.Soft)))
		w.slot = nil
	}
}

func (w *worker) logSlot(err error) {
	if err != nil && !errors.Is(err, lease.ErrNotFound) && !errors.Is(err, lease.ErrLost) {
		w.say(LogEntry{Event: "trouble"}, "The slot of pool %s was not released: %v", w.poolName(), err)
	}
}
