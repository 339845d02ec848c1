package task

import (
	"cmp"
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

// asTheyAre answers a repeated request.
func (a added) asTheyAre(tx *store.Tx, list []New) (AddResult, error) {
	tasks, err := present(tx, a.IDs)
	for i := range tasks {
		tasks[i].Title = cmp.Or(tasks[i].Title, list[i].Title)
	}
	return AddResult{Tasks: tasks, Sections: a.Sections, Repeated: true}, err
}

// present returns tasks as they are now, archived ones too. Of a task that was deleted
// only the id is known. It guards nothing.
func present(tx *store.Tx, ids []string) (out []Task, err error) {
	if err := tx.Want(append(taskKeys(ids), lease.Prefixed(archiveKind, ids)...)...); err != nil {
		return nil, err
	}
	for _, id := range ids {
		t := Task{ID: id}
		for _, kind := range []string{archiveKind, taskKind} {
			e, err := store.Peek[Task](tx, kind+id)
			if err != nil {
				return nil, err
			}
			if e.Exists() {
				t = e.Value
			}
		}
		out = append(out, t)
	}
	return out, withTexts(tx, pointersTo(out)...)
}

// contentOf is all that a list asks for.
func contentOf(list []New) (out []any) {
	for _, n := range list {
		out = append(out, n, n.Parent) // which is not in the JSON of n
	}
	return out
}
