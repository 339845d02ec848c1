package task

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

var (
	number = lazily(`^\d+(_\d+)*$`)
	uuid   = lazily(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// find resolves the name of a task: its id ("t16", or "16" for short), its title
// or an alias, else the beginning of one id, else a title that differs in case.
func find(tx *store.Tx, ref string) (Task, error) {
	found, err := findAll(tx, []string{ref})
	if err != nil {
		return Task{}, err
	}
	return found[0], nil
}

// findAll resolves several names; one task named twice counts once. It reads what
// names other than ids need once for all of them.
func findAll(tx *store.Tx, refs []string) ([]Task, error) {
	ids, err := called(tx, refs)
	if err != nil {
		return nil, err
	}
	if err := tx.Want(taskKeys(ids)...); err != nil {
		return nil, err
	}
	var out []Task
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		t, err := mustTask(tx, id) // guarded now
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	if len(out) == 0 {
		return nil, &lease.InvalidError{What: "task", Rule: "at least one is needed"}
	}
	return out, nil
}

// called returns the ids of the tasks with these names.
func called(tx *store.Tx, refs []string) ([]string, error) {
	ids := make([]string, len(refs))
	var archived []string
	for i, ref := range refs {
		t, err := findExact(tx, ref)
		if err != nil {
			return nil, err
		}
		if ids[i] = t.ID; t.ID == "" {
			archived = append(archived, lease.Prefixed(archiveKind, exact(ref))...)
		}
	}
	if err := byName(tx, refs, ids, archived); err != nil || !slices.Contains(ids, "") {
		return ids, err
	}
	all, err := tasks(tx)
	if err != nil {
		return nil, err
	}
	for i, ref := range refs {
		if ids[i] != "" {
			continue
		}
		if ids[i], err = named(all, ref); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// byName fills in the ids of tasks with exactly this title or alias. The id of an
// archived task has no other meaning.
func byName(tx *store.Tx, refs, ids, archived []string) error {
	missing := tx.Want(archived...)
	for i, ref := range refs {
		if ids[i] != "" {
			continue
		}
		for _, id := range exact(ref) {
			e, err := store.Get[Task](tx, archiveKind+id)
			if e.Exists() {
				return &NotFoundError{What: "task", Ref: ref, Archived: true}
			}
			missing = cmp.Or(missing, err)
		}
		found, err := lease.Named(tx, ref)
		if missing = cmp.Or(missing, err); len(found) == 1 {
			ids[i] = found[0]
		} else if len(found) > 1 {
			return ambiguous(tx, ref, found)
		}
	}
	return missing
}

// ambiguous is the error for several tasks with one name.
func ambiguous(tx *store.Tx, ref string, ids []string) error {
	if err := tx.Want(taskKeys(ids)...); err != nil {
		return err
	}
	e := &AmbiguousError{Ref: ref}
	for _, id := range ids[:min(len(ids), 10)] {
		t, err := mustTask(tx, id)
		if err != nil {
			return err
		}
		e.Matches = append(e.Matches, t)
	}
	return e
}

// named returns the id of the only task in the working set that ref can mean.
func named(all []Task, ref string) (string, error) {
	for _, match := range []func([]Task, string) []Task{byPrefix, byTitle} {
		switch found := match(all, ref); len(found) {
		case 0:
		case 1:
			return found[0].ID, nil
		default:
			return "", &AmbiguousError{Ref: ref, Matches: found}
		}
	}
	return "", &NotFoundError{What: "task", Ref: ref}
}

// findExact returns the task with exactly that id, or none.
func findExact(tx *store.Tx, ref string) (Task, error) {
	for _, id := range exact(ref) {
		if e, err := getTask(tx, id); err != nil || e.Exists() {
			return e.Value, err
		}
	}
	return Task{}, nil
}

// exact returns the full ids that ref may mean.
func exact(ref string) []string {
	key, err := lease.CheckKey(ref)
	if err != nil {
		return nil
	}
	if number().MatchString(key) {
		return []string{key, "t" + key}
	}
	return []string{key}
}

// byPrefix does not take a number for the beginning of another: a deleted t1 must
// not become t12. Digits can be the beginning of a UUID.
func byPrefix(all []Task, ref string) []Task {
	var out []Task
	if number().MatchString(strings.TrimPrefix(ref, "t")) {
		for _, t := range all {
			if len(ref) >= 4 && uuid().MatchString(t.ID) && strings.HasPrefix(t.ID, ref) && len(out) < 10 {
				out = append(out, t)
			}
		}
		return out
	}
	for _, id := range exact(ref) {
		for _, t := range all {
			if strings.HasPrefix(t.ID, id) && len(out) < 10 {
				out = append(out, t)
			}
		}
	}
	return out
}

// byTitle prefers the same title over one that differs in case.
func byTitle(all []Task, ref string) []Task {
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
		return same
	}
	return alike
}

// tasks returns the working set in the order of ids, guarding none.
func tasks(tx *store.Tx) ([]Task, error) {
	all, err := store.All[Task](tx, taskKind)
	out := make([]Task, len(all))
	for i, e := range all {
		out[i] = e.Value
	}
	return out, err
}

// Find returns the tasks with these names.
func Find(ctx context.Context, st *store.Store, refs []string) (found []Task, err error) {
	err = st.View(ctx, query(needFind(refs)...), func(tx *store.Tx) error {
		if found, err = findAll(tx, refs); err != nil {
			return err
		}
		return withTexts(tx, pointersTo(found)...)
	})
	return found, err
}

// needFind names the records that find begins with.
func needFind(refs []string) []string {
	var keys []string
	for _, ref := range refs {
		keys = append(keys, taskKeys(exact(ref))...)
	}
	return keys
}

// lazily compiles an expression when it is first used: most commands use none,
// and all of them would wait for it.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
