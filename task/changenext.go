package task

import (
	"context"
	"errors"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// first is what a claim of the next task does in its commit before it takes it.
type first struct {
	StatusRequest
	out ChangeResult
	err error // of the last run: the request itself was refused
}

func (f *first) do(tx *store.Tx) error {
	if f == nil {
		return nil
	}
	f.out, f.err = f.all(tx)
	return f.err
}

func (f *first) refused() bool { return f != nil && f.err != nil }

// ChangeAndNext carries out a verb and claims the next task in the same commit:
// both happen or none. The next task may be one that the verb makes ready. If no
// task is ready, it carries out the verb alone and next is nil. The request must
// not wait.
//
// With an id in n.Acquire the call can be repeated: it gives the same task again.
func ChangeAndNext(ctx context.Context, st *store.Store, d StatusRequest, n NextRequest) (done ChangeResult, next *NextResult, err error) {
	return (&selection{NextRequest: n}).after(ctx, st, d)
}

// ChangeAndHoldNext is ChangeAndNext for a process that renews its claim itself; see
// [HoldNext].
func ChangeAndHoldNext(ctx context.Context, st *store.Store, d StatusRequest, n NextRequest) (done ChangeResult, next *NextResult, lease *Lease, err error) {
	run := selection{NextRequest: n, hold: true}
	done, next, err = run.after(ctx, st, d)
	return done, next, run.lease, err
}

func (r *selection) after(ctx context.Context, st *store.Store, d StatusRequest) (ChangeResult, *NextResult, error) {
	if err := d.check(); err != nil {
		return ChangeResult{}, nil, err
	}
	if r.Wait != 0 {
		return ChangeResult{}, nil, &lease.InvalidError{What: "wait", Rule: "does not go with a claim that is part of another commit"}
	}
	r.Claim, r.Acquire.DryRun = true, d.DryRun
	for {
		f := &first{StatusRequest: d}
		r.first = f
		out, err := r.next(ctx, st)
		var long *bulky
		switch {
		case errors.As(err, &long) && !d.DryRun:
			if err := long.slim(ctx, st); err != nil {
				return ChangeResult{}, nil, err
			}
		case errors.Is(err, ErrNothingReady) && !f.refused():
			done, err := ChangeStatus(ctx, st, d)
			return done, nil, err
		case err != nil:
			return ChangeResult{}, nil, err
		case r.first == nil: // an earlier call did both
			done, err := asTheyAre(ctx, st, d.Tasks)
			return done, &out, err
		default:
			return f.out, &out, nil
		}
	}
}

// asTheyAre answers a repeated request.
func asTheyAre(ctx context.Context, st *store.Store, refs []string) (ChangeResult, error) {
	out := ChangeResult{Repeated: true}
	err := st.View(ctx, query(needFind(refs)...), func(tx *store.Tx) (err error) {
		if out.Tasks, err = findAll(tx, refs); err != nil {
			return err
		}
		return withTexts(tx, pointersTo(out.Tasks)...)
	})
	return out, err
}
