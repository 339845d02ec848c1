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
	var out Task
	_, err := update(ctx, st, r.DryRun, query(needFind(append([]string{r.Task}, r.On...))...), func(tx *store.Tx) error {
		before, err := find(tx, r.Task)
		if err != nil {
			return err
		}
		t := before.clone()
		for _, ref := range r.Off {
			if err := unlink(tx, &t, ref); err != nil {
				return err
			}
		}
		for _, ref := range r.On {
			dep, err := find(tx, ref)
			if err != nil {
				return err
			}
			if chain, err := leads(tx, dep, t.ID); err != nil || chain != nil {
				if err == nil {
					err = &CycleError{IDs: append([]string{t.ID}, chain[:len(chain)-1]...)}
				}
				return err
			}
			if err := link(tx, &t, dep); err != nil {
				return err
			}
		}
		if err := save(tx, before, &t); err != nil {
			return err
		}
		out = t
		if err := withTexts(tx, &out); err != nil {
			return err
		}
		return log(tx, "depends", t.ID, r.By, before.Status, t.Status, "")
	})
	return out, err
}

// leads returns the chain of dependencies from one task to another, or nil.
func leads(tx *store.Tx, from Task, to string) ([]string, error) {
	type node struct {
		t    Task
		prev *node
	}
	if len(from.DependsOn) > 0 {
		if _, err := tx.Scan(taskKind, 0); err != nil { // the chain may be long
			return nil, err
		}
	}
	var missing error
	seen := map[string]bool{from.ID: true}
	for todo := []*node{{t: from}}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		if at.t.ID == to {
			var chain []string
			for n := at; n != nil; n = n.prev {
				chain = append([]string{n.t.ID}, chain...)
			}
			return chain, nil
		}
		for _, id := range at.t.DependsOn {
			e, err := getTask(tx, id)
			missing = cmp.Or(missing, err)
			if e.Exists() && !seen[id] {
				seen[id] = true
				todo = append(todo, &node{e.Value, at})
			}
		}
	}
	return nil, missing
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
	var out Task
	_, err := update(ctx, st, r.DryRun, query(needFind([]string{r.Task})...), func(tx *store.Tx) error {
		before, err := find(tx, r.Task)
		if err != nil {
			return err
		}
		lk, err := lease.Look(tx, before.ID)
		if err != nil {
			return err
		}
		if lk != nil && lk.State == lease.Held && !lease.MayUse(r.Owner, lk.Owner) {
			return &lease.OwnerError{Key: before.ID, Owner: lk.Owner, Caller: r.Owner}
		}
		t := before.clone()
		if err := r.apply(tx, &t, lk); err != nil {
			return err
		}
		if err := save(tx, before, &t); err != nil {
			return err
		}
		out = t
		if err := withTexts(tx, &out); err != nil {
			return err
		}
		return log(tx, "edit", t.ID, r.Owner, before.Status, t.Status, "")
	})
	return out, err
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
		if lk != nil && lk.State == lease.Held {
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
	if err := checkPriority(t.Priority); err != nil {
		return err
	}
	if err := checkLabels(t.Labels); err != nil {
		return err
	}
	return checkTexts(t.Title, t.Description)
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
