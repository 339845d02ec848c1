package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// RemoveRequest deletes or archives tasks, all of them or none.
type RemoveRequest struct {
	Tasks  []string
	Closed bool // instead of Tasks: all completed, failed and skipped tasks that nobody else holds (archive only)
	Force  bool // also what someone else holds (archive only)
	By     string
	DryRun bool
}

// Delete deletes tasks for good. It refuses a task that someone holds or others
// depend on.
func Delete(ctx context.Context, st *store.Store, r RemoveRequest) (ChangeResult, error) {
	return r.run(ctx, st, "delete", func(tx *store.Tx, t Task, all []string) error {
		lk, err := lease.Look(tx, t.ID)
		if err != nil {
			return err
		}
		if lk.InForce() {
			return &BusyError{Holders: []lease.Info{*lk}}
		}
		if rest := lease.Without(t.Dependents, all); len(rest) > 0 {
			return &StateError{ID: t.ID, Status: t.Status, Why: list(rest) + " depend on it"}
		}
		return nil
	})
}

// Archive moves closed tasks out of the working set and frees their locks. It
// refuses a task that someone else holds, unless by force.
func Archive(ctx context.Context, st *store.Store, r RemoveRequest) (ChangeResult, error) {
	return r.run(ctx, st, "archive", func(tx *store.Tx, t Task, all []string) error {
		if t.Status.Open() {
			return &StateError{ID: t.ID, Status: t.Status, Why: "is " + string(t.Status) + ": only completed, failed and skipped tasks are archived"}
		}
		if rest := lease.Without(waiting(t, func(id string) Task { e, _ := getTask(tx, id); return e.Value }), all); len(rest) > 0 {
			return &StateError{ID: t.ID, Status: t.Status, Why: list(rest) + " wait for it"}
		}
		lk, err := lease.Look(tx, t.ID)
		if err != nil {
			return err
		}
		if lk.InForce() && !lease.MayUse(r.By, lk.Owner) && !r.Force {
			return &BusyError{Holders: []lease.Info{*lk}}
		}
		t.release()
		return tx.Put(archiveKind+t.ID, t)
	})
}

// run takes tasks out of the working set after each was handled.
func (r RemoveRequest) run(ctx context.Context, st *store.Store, verb Verb, each func(tx *store.Tx, t Task, all []string) error) (ChangeResult, error) {
	var out ChangeResult
	_, err := update(ctx, st, r.DryRun, query(needFind(r.Tasks)...), func(tx *store.Tx) error {
		out = ChangeResult{Tasks: []Task{}}
		found, err := r.find(tx)
		if err != nil {
			return err
		}
		if err := cmp.Or(wantChange(tx, found), wantNames(tx, found)); err != nil {
			return err
		}
		ids, shown := idsOf(found), slices.Clone(found)
		if err := withTexts(tx, pointersTo(shown)...); err != nil {
			return err
		}
		for i, id := range ids {
			t, err := mustTask(tx, id) // as the one before left it
			if err != nil {
				return err
			}
			if err := each(tx, t, ids); err != nil {
				return err
			}
			for _, dep := range t.DependsOn {
				if err := disown(tx, dep, id); err != nil {
					return err
				}
			}
			tx.Delete(taskKind + t.ID)
			if t.LongText && verb == "delete" {
				tx.Delete(textKind + t.ID)
			}
			err = cmp.Or(reindex(tx, t, Task{}, t.trace()), lease.SetNames(tx, t.ID, t.names(), nil),
				lease.ReleaseClaim(tx, t.ID, r.By, string(verb)), log(tx, verb, t.ID, r.By, t.Status, t.Status, ""))
			if err != nil {
				return err
			}
			t.Description, t.LongText = shown[i].Description, false
			out.Tasks = append(out.Tasks, t)
		}
		return nil
	})
	return out, err
}

func (r RemoveRequest) find(tx *store.Tx) ([]Task, error) {
	if !r.Closed {
		return findAll(tx, r.Tasks)
	}
	all, err := tasks(tx)
	if err != nil {
		return nil, err
	}
	byID := map[string]Task{}
	for _, t := range all {
		byID[t.ID] = t
	}
	closed := slices.DeleteFunc(all, func(t Task) bool {
		return t.Status.Open() || len(waiting(t, func(id string) Task { return byID[id] })) > 0
	})
	return r.notHeld(tx, closed)
}

// notHeld returns the first tasks that nobody else holds, some hundred.
func (r RemoveRequest) notHeld(tx *store.Tx, closed []Task) (out []Task, err error) {
	const most = 200
	for some := range slices.Chunk(closed, most) {
		if err := lease.WantLook(tx, idsOf(some)...); err != nil {
			return nil, err
		}
		for _, t := range some {
			lk, err := lease.Look(tx, t.ID)
			if err != nil {
				return nil, err
			}
			if !lk.InForce() || lease.MayUse(r.By, lk.Owner) || r.Force {
				out = append(out, t)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out, nil
}

// waiting returns the tasks that wait for t: it must not leave them behind.
func waiting(t Task, get func(id string) Task) (ids []string) {
	for _, id := range t.Dependents {
		if slices.Contains(get(id).WaitsFor, t.ID) {
			ids = append(ids, id)
		}
	}
	return ids
}

// FreeArchived releases the locks of archived tasks and nothing else: a child is
// another task than its parent.
func FreeArchived(ctx context.Context, st *store.Store, by string, dry bool) (freed []string, err error) {
	all, err := lockedInArchive(ctx, st)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(all, 20) {
		var now []string
		_, err := update(ctx, st, dry, driver.Query{}, func(tx *store.Tx) error {
			now = nil
			if err := lease.WantEnd(tx, some...); err != nil {
				return err
			}
			for _, id := range some {
				lk, err := lease.Look(tx, id)
				if err != nil {
					return err
				}
				if lk == nil {
					continue
				}
				if err := lease.ReleaseClaim(tx, id, by, "archived"); err != nil {
					return err
				}
				now = append(now, id)
			}
			return nil
		})
		if err != nil {
			return freed, err
		}
		freed = append(freed, now...)
	}
	return freed, nil
}

// lockedInArchive returns the archived tasks that have a lock.
func lockedInArchive(ctx context.Context, st *store.Store) (ids []string, err error) {
	err = st.View(ctx, lease.Everything, func(tx *store.Tx) error {
		ids = nil
		locks, err := lease.Locks(tx)
		if err != nil {
			return err
		}
		var missing error
		for id := range locks {
			old, err := store.Get[Task](tx, archiveKind+id)
			missing = cmp.Or(missing, err)
			if old.Exists() {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		return missing
	})
	return ids, err
}

// NextNumber draws a number for scripts that name their tasks themselves.
func NextNumber(ctx context.Context, st *store.Store, dry bool) (n int64, err error) {
	_, err = update(ctx, st, dry, query(taskCounter), func(tx *store.Tx) (err error) {
		n, err = take(tx, taskCounter)
		if err != nil {
			return err
		}
		return lease.Log(tx, lease.Event{Event: "id drawn", Keys: []string{fmt.Sprintf("t%d", n)}})
	})
	return n, err
}

// PeekNumber returns what NextNumber would.
func PeekNumber(ctx context.Context, st *store.Store) (int64, error) {
	return NextNumber(ctx, st, true)
}

// Resync raises the counter above every number that a task has or had. It never
// lowers it.
func Resync(ctx context.Context, st *store.Store, dry bool) (next int64, err error) {
	return liftNumber(ctx, st, dry, func(used int64) (int64, error) { return used, nil })
}

// SetNumber makes n the next number. It refuses one that was given out before, or
// that a task has or had.
func SetNumber(ctx context.Context, st *store.Store, n int64, dry bool) (next int64, err error) {
	return liftNumber(ctx, st, dry, func(unused int64) (int64, error) {
		if n < unused {
			return 0, &lease.InvalidError{What: fmt.Sprintf("number %d", n), Rule: fmt.Sprintf("was given out, or may have been: the next that was not is %d", unused)}
		}
		return n, nil
	})
}

// liftNumber lets choose decide the next number, given the first number that was
// never given out and that no task has or had.
func liftNumber(ctx context.Context, st *store.Store, dry bool, choose func(unused int64) (int64, error)) (next int64, err error) {
	need := driver.Query{Keys: []string{taskCounter}, Ranges: []driver.Range{{Prefix: taskKind}, {Prefix: archiveKind}}}
	_, err = update(ctx, st, dry, need, func(tx *store.Tx) error {
		next = 1
		for _, kind := range []string{taskKind, archiveKind} {
			recs, err := tx.Scan(kind, 0)
			if err != nil {
				return err
			}
			for _, rec := range recs {
				if m := numbered().FindStringSubmatch(strings.TrimPrefix(rec.Key, kind)); m != nil && m[1] == "t" {
					n, _ := strconv.ParseInt(m[2], 10, 64)
					next = max(next, n+1)
				}
			}
		}
		c, err := store.Get[counter](tx, taskCounter)
		if err != nil {
			return err
		}
		if next, err = choose(max(next, c.Value.Next)); err != nil {
			return err
		}
		return raise(tx, taskCounter, next)
	})
	return next, err
}
