package task

import (
	"context"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// added is what the receipt of a request keeps: the tasks themselves may be too
// large for it.
type added struct {
	IDs      []string `json:"ids"`
	Sections []string `json:"sections,omitempty"`
}

// addOnce commits what do adds for the list, unless the same request did so before.
func addOnce(ctx context.Context, st *store.Store, dry bool, id lease.Repeatable, list []New, do func(*store.Tx, *AddResult) error) (AddResult, error) {
	var out AddResult
	_, err := update(ctx, st, dry, query(append(id.Need(), taskCounter)...), func(tx *store.Tx) (err error) {
		var before added
		done, err := id.Before(tx, &before)
		if err != nil {
			return err
		}
		if done {
			out, err = before.asTheyAre(tx, list)
			return err
		}
		out = AddResult{}
		if err := do(tx, &out); err != nil {
			return err
		}
		return id.Keep(tx, added{idsOf(out.Tasks), out.Sections})
	})
	if err != nil {
		return AddResult{}, err
	}
	return out, nil
}

// asTheyAre answers a repeated request. Of a task that was deleted since, only its
// id and its title are known.
func (a added) asTheyAre(tx *store.Tx, list []New) (AddResult, error) {
	out := AddResult{Sections: a.Sections, Repeated: true}
	if err := tx.Want(append(taskKeys(a.IDs), lease.Prefixed(archiveKind, a.IDs)...)...); err != nil {
		return out, err
	}
	for i, id := range a.IDs {
		t := Task{ID: id, Title: list[i].Title}
		for _, kind := range []string{archiveKind, taskKind} {
			e, err := store.Peek[Task](tx, kind+id)
			if err != nil {
				return out, err
			}
			if e.Exists() {
				t = e.Value
			}
		}
		out.Tasks = append(out.Tasks, t)
	}
	return out, withTexts(tx, pointersTo(out.Tasks)...)
}

// contentOf is all that a list asks for.
func contentOf(list []New) (out []any) {
	for _, n := range list {
		out = append(out, n, n.Parent) // which is not in the JSON of n
	}
	return out
}
