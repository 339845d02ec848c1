package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// ErrNothingReady: no task can be claimed now.
var ErrNothingReady = errors.New("nothing ready")

// NothingReadyError is ErrNothingReady with the reasons.
type NothingReadyError struct {
	Closed []Closed // sections of others that have work to do

	guards []driver.Guard
}

// Closed is a section of other owners, with its first task that nobody works on.
type Closed struct {
	Task    Task
	Lock    Lock // of the section, or of the first of its workers
	Workers int  // that work in a section for several
}

func (e *NothingReadyError) Error() string {
	if len(e.Closed) > 0 {
		b := e.Closed[0]
		if b.Workers > 0 {
			return fmt.Sprintf("%v: section %s is taken by %d", ErrNothingReady, b.Task.Section, b.Workers)
		}
		return fmt.Sprintf("%v: section %s is locked by %s", ErrNothingReady, b.Task.Section, b.Lock.Owner)
	}
	return ErrNothingReady.Error()
}

// Is makes it an ErrNothingReady.
func (e *NothingReadyError) Is(target error) bool { return target == ErrNothingReady }

// Wait returns when a task may be ready, when one of more no longer holds, or after
// atMost. Expiry and death send no notification: it also returns now and then.
func (e *NothingReadyError) Wait(ctx context.Context, st *store.Store, atMost time.Duration, more ...driver.Guard) error {
	guards := append(slices.Clip(more), e.guards...)
	wctx, cancel := context.WithTimeout(ctx, min(atMost, time.Second+rand.N(time.Second)))
	defer cancel()
	if err := st.Wait(wctx, guards[:min(len(guards), driver.MaxGuards)]); err != nil && ctx.Err() == nil && wctx.Err() == nil {
		<-wctx.Done() // the store cannot wait now
	}
	return ctx.Err()
}

// SectionError: the next task lies in an exclusive section that nobody holds.
type SectionError struct {
	Section string
	Key     string // to take
}

func (e *SectionError) Error() string {
	return fmt.Sprintf("section %s: to be taken before the tasks in it", e.Section)
}

// HoldNext is Next with Claim for a process that renews its claim itself. It
// takes no exclusive section on the way unless the request says so: where the next task lies in one that
// the owner does not hold the error is a [*SectionError], so that a worker can
// take the section first and keep it from task to task.
func HoldNext(ctx context.Context, st *store.Store, r NextRequest) (Task, *Lease, error) {
	r.Claim = true
	run := selection{NextRequest: r, hold: true}
	out, err := run.next(ctx, st)
	return out.Task, run.lease, err
}

// acquire acquires the keys of a claim, for this process or for its owner.
func (r *selection) acquire(ctx context.Context, st *store.Store, a lease.AcquireRequest) (lease.Grant, error) {
	if !r.hold {
		return lease.Acquire(ctx, st, a)
	}
	held, err := lease.Hold(ctx, st, a)
	if err != nil {
		return lease.Grant{}, err
	}
	r.lease = held
	return held.Grant(), nil
}

// closedSection is a section that another owner works in.
type closedSection struct {
	name    string
	by      lease.Info
	workers int
}

// openings finds the work to do in closed sections.
func (r *selection) openings(tx *store.Tx, closed []closedSection) (out []Closed, err error) {
	for _, c := range closed {
		page, missing := r.read(tx, c.name)
		free, _, missed := r.free(tx, page)
		if err = cmp.Or(err, missing, missed); len(free) > 0 {
			out = append(out, Closed{Task: free[0], Lock: c.by, Workers: c.workers})
		}
	}
	return out, err
}
