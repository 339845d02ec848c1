package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// closed reports whether next and claim leave the section out.
func (s Section) closed() bool { return s.Skipped || s.MovesTo != "" || s.MovesFrom != "" }

// RenameRequest gives a section another name.
type RenameRequest struct {
	From, To string
	By       string
	DryRun   bool
	Progress func(done, all int) // if set, called while the tasks move
}

// moveAtOnce is how many tasks one commit of a rename moves: each needs guards of
// its own.
const moveAtOnce = 20

// RenameSection gives a section another name, and returns how many tasks moved. A
// section may have more tasks than one commit can move. So a first commit closes
// it, and makes one of the new name that is closed too; others move the tasks; and
// the last one opens the new section and deletes the old one. If it is interrupted,
// the same request goes on.
func RenameSection(ctx context.Context, st *store.Store, r RenameRequest) (moved int, err error) {
	for _, name := range []*string{&r.From, &r.To} {
		if *name, err = checkSection(*name); err != nil {
			return 0, err
		}
	}
	if r.From == r.To {
		return 0, &StateError{ID: "section " + r.From, Why: "has that name"}
	}
	if err := r.begin(ctx, st); err != nil {
		return 0, err
	}
	for {
		ids, err := r.left(ctx, st)
		if err != nil || r.DryRun {
			return len(ids), err
		}
		if len(ids) == 0 {
			done, err := r.end(ctx, st)
			if err != nil || done {
				return moved, err
			}
		}
		all := moved + len(ids)
		for some := range slices.Chunk(ids, moveAtOnce) {
			if err := r.move(ctx, st, some); err != nil {
				return moved, err
			}
			if moved += len(some); r.Progress != nil {
				r.Progress(moved, all)
			}
		}
	}
}

// begin closes the section, unless somebody works in it.
func (r RenameRequest) begin(ctx context.Context, st *store.Store) error {
	_, err := update(ctx, st, r.DryRun, query(sectionKind+r.From, sectionKind+r.To), func(tx *store.Tx) error {
		from, err := getSection(tx, r.From)
		if err != nil {
			return err
		}
		to, err := getSection(tx, r.To)
		switch {
		case err != nil:
			return err
		case !from.Exists():
			return &NotFoundError{What: "section", Ref: r.From}
		case from.Value.MovesTo == r.To && to.Exists():
			return nil // it goes on
		case from.Value.closed() && !from.Value.Skipped:
			return &StateError{ID: "section " + r.From, Why: "is being renamed to " + cmp.Or(from.Value.MovesTo, r.From)}
		case to.Exists():
			return &StateError{ID: "section " + r.To, Why: "exists already"}
		}
		if err := r.unused(tx, from.Value); err != nil {
			return err
		}
		old, fresh := from.Value, from.Value
		old.MovesTo, fresh.MovesFrom = r.To, r.From
		fresh.Name = r.To
		if fresh.Workers > 0 {
			if err := fresh.freeName(tx, r.By); err != nil {
				return err
			}
			if err := lease.SizeSection(tx, r.To, fresh.Workers, r.By); err != nil {
				return err
			}
		}
		return cmp.Or(tx.Put(sectionKind+r.From, old), tx.Put(sectionKind+r.To, fresh))
	})
	return err
}

// unused refuses a section that somebody works in, and guards that nobody does.
func (r RenameRequest) unused(tx *store.Tx, s Section) error {
	lk, err := lease.Look(tx, sectionLock(s.Name))
	if err := cmp.Or(err, s.heldBy(lk)); err != nil {
		return err
	}
	held, err := lease.LookSection(tx, s.Name)
	if err != nil {
		return err
	}
	if s.Shared { // a task that somebody takes meanwhile cannot move
		ids, err := r.inOld(tx)
		if err := cmp.Or(err, lease.WantPeek(tx, ids...)); err != nil {
			return err
		}
		for _, id := range ids {
			lk, err := lease.Peek(tx, id)
			if err != nil {
				return err
			}
			if lk.InForce() {
				held = append(held, *lk)
			}
		}
	}
	if len(held) > 0 {
		return s.heldBy(&held[0])
	}
	return nil
}

// left returns the tasks that have not moved.
func (r RenameRequest) left(ctx context.Context, st *store.Store) (ids []string, err error) {
	err = st.View(ctx, driver.Query{Ranges: []driver.Range{{Prefix: taskKind}}}, func(tx *store.Tx) error {
		ids, err = r.inOld(tx)
		return err
	})
	return ids, err
}

func (r RenameRequest) inOld(tx *store.Tx) (ids []string, err error) {
	all, err := tasks(tx)
	for _, t := range all {
		if t.Section == r.From {
			ids = append(ids, t.ID)
		}
	}
	return ids, err
}

// move moves some tasks.
func (r RenameRequest) move(ctx context.Context, st *store.Store, ids []string) error {
	_, err := update(ctx, st, false, query(append(taskKeys(ids), sectionKind+r.To)...), func(tx *store.Tx) error {
		to, err := getSection(tx, r.To)
		if err != nil {
			return err
		}
		if to.Value.MovesFrom != r.From {
			return &StateError{ID: "section " + r.To, Why: "was changed meanwhile"}
		}
		if err := lease.WantLook(tx, ids...); err != nil {
			return err
		}
		for _, id := range ids {
			if err := r.moveOne(tx, id); err != nil {
				return err
			}
		}
		return lease.Log(tx, lease.Event{Event: "task edit", Keys: ids, Owner: r.By, Why: fmt.Sprintf("section %s is renamed to %s", r.From, r.To)})
	})
	return err
}

func (r RenameRequest) moveOne(tx *store.Tx, id string) error {
	before, err := getTask(tx, id)
	if err != nil || before.Value.Section != r.From {
		return err // somebody else moved or deleted it
	}
	t := before.Value.clone()
	lk, err := lease.Look(tx, id)
	if err != nil {
		return err
	}
	if err := (EditRequest{Section: &r.To, Owner: r.By}).apply(tx, &t, lk); err != nil {
		return err
	}
	return save(tx, before.Value, &t)
}

// end opens the new section, and deletes the old one, if no task came there
// meanwhile.
func (r RenameRequest) end(ctx context.Context, st *store.Store) (done bool, err error) {
	_, err = update(ctx, st, false, query(sectionKind+r.From, sectionKind+r.To), func(tx *store.Tx) error {
		from, err := getSection(tx, r.From)
		if err != nil {
			return err
		}
		to, err := getSection(tx, r.To)
		if err != nil {
			return err
		}
		ids, err := r.inOld(tx)
		if done = err == nil && len(ids) == 0; !done {
			return err
		}
		if from.Value.MovesTo != r.To || to.Value.MovesFrom != r.From {
			return &StateError{ID: "section " + r.From, Why: "was changed meanwhile"}
		}
		if err := cmp.Or(r.unused(tx, from.Value), r.followers(tx)); err != nil {
			return err
		}
		if from.Value.Workers > 0 {
			if all, err := lease.OpenSection(tx, r.From, r.By); err != nil || all.InForce() {
				return cmp.Or(err, from.Value.heldBy(all))
			}
		}
		tx.GuardKind(openKind) // a task may come meanwhile
		tx.Delete(from.Key)
		to.Value.MovesFrom = ""
		if err := tx.Put(to.Key, to.Value); err != nil {
			return err
		}
		return lease.Log(tx, lease.Event{Event: "section changed", Keys: []string{sectionLock(r.From), sectionLock(r.To)}, Owner: r.By, Why: "renamed"})
	})
	return done && err == nil, err
}

// followers changes the sections that depend on the old one.
func (r RenameRequest) followers(tx *store.Tx) error {
	all, err := sections(tx)
	if err != nil {
		return err
	}
	for _, s := range all {
		i := slices.Index(s.DependsOn, r.From)
		if i < 0 {
			continue
		}
		e, err := getSection(tx, s.Name)
		if err != nil {
			return err
		}
		e.Value.DependsOn = slices.Clone(e.Value.DependsOn)
		e.Value.DependsOn[i] = r.To
		if err := tx.Put(e.Key, e.Value); err != nil {
			return err
		}
	}
	return nil
}
