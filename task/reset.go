package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// ResetRequest makes tasks pending again: all of them, in one commit.
type ResetRequest struct {
	Tasks   []string
	Status  []Status // also every task with one of these
	By      string
	Cascade bool // with everything that depends on them, directly or not
	Force   bool // also tasks that someone works on; their tokens end
	Reason  string
	ID      string // a repetition with this id, within a day, has one effect; empty: there is none
	DryRun  bool
}

// BusyError lists who works on what a change would undo.
type BusyError = lease.BusyError

// ResetTasks makes tasks pending again. It finds the tasks inside the transaction,
// so it misses none and a reader never sees half of it.
func ResetTasks(ctx context.Context, st *store.Store, r ResetRequest) (ChangeResult, error) {
	if err := checkReason(r.Reason, nil); err != nil {
		return ChangeResult{}, err
	}
	id, err := lease.NewRepeatable(r.By, r.ID, "tasks reset", []any{r.Tasks, r.Status, r.Cascade, r.Force, r.Reason})
	if err != nil {
		return ChangeResult{}, err
	}
	var out ChangeResult
	_, err = update(ctx, st, r.DryRun, query(append(id.Need(), needFind(r.Tasks)...)...), func(tx *store.Tx) (err error) {
		var before []string
		out = ChangeResult{}
		if out.Repeated, err = id.Before(tx, &before); err != nil {
			return err
		}
		if out.Repeated {
			out.Tasks, err = present(tx, before)
			return err
		}
		if out.Tasks, err = r.all(tx); err != nil {
			return err
		}
		return id.Keep(tx, idsOf(out.Tasks))
	})
	if err != nil {
		return ChangeResult{}, err
	}
	return out, nil
}

// all resets the tasks of the request.
func (r ResetRequest) all(tx *store.Tx) (out []Task, err error) {
	found, err := r.meant(tx)
	if err != nil {
		return nil, err
	}
	if r.Cascade {
		if found, err = dependants(tx, found); err != nil {
			return nil, err
		}
	}
	if len(found) > maxBatch {
		return nil, &lease.InvalidError{What: "reset", Rule: fmt.Sprintf("would touch %d tasks, at most %d at once", len(found), maxBatch)}
	}
	if err := r.free(tx, found); err != nil {
		return nil, err
	}
	from := map[Status][]string{}
	for _, t := range found {
		after, err := r.one(tx, t.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, after)
		from[t.Status] = append(from[t.Status], t.ID)
	}
	for _, s := range Statuses {
		if err := logAll(tx, Reset, from[s], r.By, s, Pending, r.Reason); err != nil {
			return nil, err
		}
	}
	return out, withTexts(tx, pointersTo(out)...)
}

// meant returns the named tasks, and those with one of the statuses.
func (r ResetRequest) meant(tx *store.Tx) (found []Task, err error) {
	if len(r.Tasks) > 0 || len(r.Status) == 0 {
		if found, err = findAll(tx, r.Tasks); err != nil || len(r.Status) == 0 {
			return found, err
		}
	}
	all, err := store.All[Task](tx, taskKind)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if !slices.Contains(r.Status, e.Value.Status) || slices.ContainsFunc(found, func(t Task) bool { return t.ID == e.Value.ID }) {
			continue
		}
		t, err := getTask(tx, e.Value.ID) // guarded
		if err != nil {
			return nil, err
		}
		found = append(found, t.Value)
	}
	return found, nil
}

// dependants adds everything that depends on the tasks, directly or not.
func dependants(tx *store.Tx, found []Task) ([]Task, error) {
	seen := map[string]bool{}
	for _, t := range found {
		seen[t.ID] = true
	}
	if _, err := tx.Scan(taskKind, 0); err != nil { // the chain may be long
		return nil, err
	}
	var missing error
	for i := 0; i < len(found); i++ {
		for _, id := range found[i].Dependents {
			e, err := getTask(tx, id)
			missing = cmp.Or(missing, err)
			if e.Exists() && !seen[id] {
				seen[id] = true
				found = append(found, e.Value)
			}
		}
	}
	return found, missing
}

// free refuses tasks that someone holds, or with Force breaks their locks.
func (r ResetRequest) free(tx *store.Tx, found []Task) error {
	if err := wantChange(tx, found); err != nil {
		return err
	}
	var held []lease.Info
	var end []string
	for _, t := range found {
		lk, err := lease.Look(tx, t.ID)
		if err != nil {
			return err
		}
		if lk == nil {
			continue
		}
		if lk.InForce() {
			held = append(held, *lk)
		}
		if r.Force || !lk.InForce() {
			end = append(end, t.ID)
		}
	}
	if len(held) > 0 && !r.Force {
		return &BusyError{Holders: held}
	}
	return lease.BreakKeys(tx, end, r.By, r.Reason, r.Force)
}

func (r ResetRequest) one(tx *store.Tx, id string) (Task, error) {
	before, err := mustTask(tx, id) // as an earlier one of this reset left it
	if err != nil {
		return Task{}, err
	}
	t := before.clone()
	t.Status, t.Result, t.BlockedReason, t.CompletedAt = Pending, nil, "", nil
	t.LastVerb, t.LastToken, t.LastLease, t.Attempts = "", 0, "", 0
	t.release()
	if err := save(tx, before, &t); err != nil {
		return Task{}, err
	}
	return t, spread(tx, before, t)
}
