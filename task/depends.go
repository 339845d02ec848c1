package task

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// CycleError names tasks or sections that would wait for each other.
type CycleError struct{ IDs []string }

func (e *CycleError) Error() string {
	return "would depend on itself: " + strings.Join(append(e.IDs, e.IDs[0]), " → ")
}

// DependsRequest adds and removes dependencies of one task.
type DependsRequest struct {
	Task   string
	On     []string // it now depends on these
	Off    []string // and no longer on these
	By     string
	DryRun bool
}

// Depends changes what a task depends on. Cycles are refused and named.
func Depends(ctx context.Context, st *store.Store, r DependsRequest) (Task, error) {
	return changeTask(ctx, st, r.DryRun, append([]string{r.Task}, r.On...), func(tx *store.Tx, t *Task) error {
		for _, ref := range r.Off {
			if err := unlink(tx, t, ref); err != nil {
				return err
			}
		}
		for _, ref := range r.On {
			dep, err := find(tx, ref)
			if err != nil {
				return err
			}
			if err := noCycle(tx, taskKind, t.ID, dep.ID, dependencies); err != nil {
				return err
			}
			if err := link(tx, t, dep); err != nil {
				return err
			}
		}
		return log(tx, "depends", t.ID, r.By, t.Status, t.Status, "")
	})
}

// changeTask finds the first task, lets change change it, and saves it.
func changeTask(ctx context.Context, st *store.Store, dry bool, refs []string, change func(*store.Tx, *Task) error) (t Task, err error) {
	_, err = update(ctx, st, dry, query(needFind(refs)...), func(tx *store.Tx) error {
		before, err := find(tx, refs[0])
		if err != nil {
			return err
		}
		t = before.clone()
		if err := change(tx, &t); err != nil {
			return err
		}
		return cmp.Or(save(tx, before, &t), withTexts(tx, &t))
	})
	return t, err
}

// dependencies are those of a task; none if it was archived or deleted.
func dependencies(tx *store.Tx, id string) ([]string, error) {
	t, err := getTask(tx, id)
	return t.Value.DependsOn, err
}

// noCycle refuses that one task or section depends on another that depends on it,
// directly or not. next returns what one depends on itself.
func noCycle(tx *store.Tx, kind, id, on string, next func(*store.Tx, string) ([]string, error)) error {
	var missing error
	via := map[string]string{on: id}
	for todo := []string{on}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		if at == id {
			var chain []string
			for at = via[at]; at != id; at = via[at] {
				chain = append(chain, at)
			}
			slices.Reverse(chain)
			return &CycleError{IDs: append([]string{id}, chain...)}
		}
		more, err := next(tx, at)
		if missing = cmp.Or(missing, err); len(more) > 0 {
			if _, err := tx.Scan(kind, 0); err != nil { // the chain may be long
				return err
			}
		}
		for _, d := range more {
			if via[d] == "" {
				via[d], todo = at, append(todo, d)
			}
		}
	}
	return missing
}

// unlink ends a dependency, in both records. The caller saves t.
func unlink(tx *store.Tx, t *Task, ref string) error {
	id := ref
	if !slices.Contains(t.DependsOn, id) {
		dep, err := find(tx, ref)
		if err != nil {
			return err
		}
		id = dep.ID
	}
	drop := func(s string) bool { return s == id }
	t.DependsOn = slices.DeleteFunc(t.DependsOn, drop)
	t.WaitsFor = slices.DeleteFunc(t.WaitsFor, drop)
	return disown(tx, id, t.ID)
}

// disown removes a dependent from a task.
func disown(tx *store.Tx, id, dependent string) error {
	e, err := getTask(tx, id)
	if err != nil || !e.Exists() {
		return err
	}
	t := e.Value.clone()
	t.Dependents = lease.Without(t.Dependents, []string{dependent})
	return save(tx, e.Value, &t)
}

// EditRequest changes the fields of a task. Nil fields stay.
type EditRequest struct {
	Task        string
	Owner       string
	Title       *string
	Alias       []string // further names to give it,
	NoAlias     []string // and to take away
	Description *string
	Section     *string
	Priority    *int
	Labels      *[]string
	DryRun      bool
}

// Edit changes the fields of a task. While an owner works on it, only that owner
// may, and the section cannot change.
func Edit(ctx context.Context, st *store.Store, r EditRequest) (Task, error) {
	if r.Section != nil && *r.Section != "" {
		name, err := checkSection(*r.Section)
		if err != nil {
			return Task{}, err
		}
		r.Section = &name
	}
	return changeTask(ctx, st, r.DryRun, []string{r.Task}, func(tx *store.Tx, t *Task) error {
		lk, err := lease.Look(tx, t.ID)
		if err != nil {
			return err
		}
		if lk.InForce() && !lease.MayUse(r.Owner, lk.Owner) {
			return &lease.OwnerError{Key: t.ID, Owner: lk.Owner, Caller: r.Owner}
		}
		if err := r.apply(tx, t, lk); err != nil {
			return err
		}
		return log(tx, "edit", t.ID, r.Owner, t.Status, t.Status, "")
	})
}

func (r EditRequest) apply(tx *store.Tx, t *Task, lk *lease.Info) error {
	if r.Title != nil {
		t.Title = strings.TrimSpace(*r.Title)
	}
	if err := r.rename(t); err != nil {
		return err
	}
	if r.Description != nil {
		t.Description, t.LongText = *r.Description, false
	}
	if r.Priority != nil {
		t.Priority = *r.Priority
	}
	if r.Labels != nil {
		t.Labels = once(*r.Labels)
	}
	if r.Section != nil && *r.Section != t.Section {
		if lk.InForce() {
			return &StateError{ID: t.ID, Status: t.Status, Why: "cannot change its section while it is held by " + lk.Owner}
		}
		if err := lease.ReleaseKey(tx, t.ID, r.Owner, "moved"); err != nil { // it has expired
			return err
		}
		if t.Section = *r.Section; t.Section != "" {
			if err := cmp.Or(checkPlace(t.Section, t.ID), moveInto(tx, *t)); err != nil {
				return err
			}
		}
	}
	return checkFields(t.Title, t.Description, t.Priority, t.Labels)
}

// rename adds and removes aliases. Removing an alias that the task does not have
// is not an error.
func (r EditRequest) rename(t *Task) error {
	drop, err := checkAliases(r.NoAlias)
	if err != nil {
		return err
	}
	t.Aliases, err = checkAliases(append(lease.Without(t.Aliases, drop), r.Alias...))
	return err
}
