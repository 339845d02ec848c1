package task

import (
	"cmp"
	"context"
	"regexp"
	"strings"
	"sync"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
)

var number = lazily(`^\d+(_\d+)*$`)

// find resolves what a person calls a task: its id ("t16", or "16" for short),
// else the beginning of one name, else its title.
func find(tx *store.Tx, ref string) (Task, error) {
	if t, err := findExact(tx, ref); t.ID != "" || err != nil {
		return t, err
	}
	for _, id := range exact(ref) { // what is archived is nothing else by another name
		if e, err := store.Get[Task](tx, archiveKind+id); err != nil || e.Exists() {
			return Task{}, cmp.Or(err, error(&NotFoundError{What: "task", Ref: ref, Archived: true}))
		}
	}
	for _, match := range []func(*store.Tx, string) ([]Task, error){byPrefix, byTitle} {
		found, err := match(tx, ref)
		if err != nil {
			return Task{}, err
		}
		switch len(found) {
		case 0:
		case 1:
			return mustTask(tx, found[0].ID) // guarded now
		default:
			return Task{}, &AmbiguousError{Ref: ref, Matches: found}
		}
	}
	return Task{}, &NotFoundError{What: "task", Ref: ref}
}

// findExact returns the task with that very id, or none.
func findExact(tx *store.Tx, ref string) (Task, error) {
	for _, id := range exact(ref) {
		if e, err := getTask(tx, id); err != nil || e.Exists() {
			return e.Value, err
		}
	}
	return Task{}, nil
}

// exact returns the ids that ref may be in full.
func exact(ref string) []string {
	key, err := lock.CheckKey(ref)
	if err != nil {
		return nil
	}
	if number().MatchString(key) {
		return []string{key, "t" + key}
	}
	return []string{key}
}

// byPrefix takes no number for the beginning of another: t1 that is gone must
// not become t12.
func byPrefix(tx *store.Tx, ref string) ([]Task, error) {
	if number().MatchString(strings.TrimPrefix(ref, "t")) {
		return nil, nil
	}
	var out []Task
	for _, id := range exact(ref) {
		recs, err := tx.Scan(taskKind+id, 10)
		if err != nil {
			return nil, err
		}
		for _, rec := range recs {
			e, err := store.Decode[Task](tx, rec)
			if err != nil {
				return nil, err
			}
			out = append(out, e.Value)
		}
	}
	return out, nil
}

// byTitle prefers the same title over one that differs in case.
func byTitle(tx *store.Tx, ref string) ([]Task, error) {
	all, err := tasks(tx)
	if err != nil {
		return nil, err
	}
	var same, alike []Task
	for _, t := range all {
		switch {
		case t.Title == ref:
			same = append(same, t)
		case strings.EqualFold(t.Title, ref):
			alike = append(alike, t)
		}
	}
	if len(same) > 0 {
		return same, nil
	}
	return alike, nil
}

// tasks returns the working set in the order of ids, guarding none.
func tasks(tx *store.Tx) ([]Task, error) {
	recs, err := tx.Scan(taskKind, 0)
	if err != nil {
		return nil, err
	}
	out := make([]Task, 0, len(recs))
	for _, rec := range recs {
		e, err := store.Decode[Task](tx, rec)
		if err != nil {
			return nil, err
		}
		out = append(out, e.Value)
	}
	return out, nil
}

// Find returns the tasks that are called so.
func Find(ctx context.Context, st *store.Store, refs []string) (found []Task, err error) {
	err = st.View(ctx, query(needFind(refs)...), func(tx *store.Tx) error {
		found, err = findAll(tx, refs)
		return err
	})
	return found, err
}

// findAll resolves several names; naming one task twice counts once.
func findAll(tx *store.Tx, refs []string) ([]Task, error) {
	var out []Task
	seen := map[string]bool{}
	for _, ref := range refs {
		t, err := find(tx, ref)
		if err != nil {
			return nil, err
		}
		if !seen[t.ID] {
			seen[t.ID] = true
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, &lock.InvalidError{What: "task", Rule: "at least one is needed"}
	}
	return out, nil
}

// needFind names what find begins with.
func needFind(refs []string) []string {
	var keys []string
	for _, ref := range refs {
		for _, id := range exact(ref) {
			keys = append(keys, taskKind+id)
		}
	}
	return keys
}

// lazily compiles an expression when it is first used: most commands use none,
// and all of them would wait for it.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
