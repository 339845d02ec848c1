package task

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// Past is a task from another system, with its history there.
type Past struct {
	New
	Status        Status // empty: pending; in progress only with HeldBy
	BlockedReason string
	Progress      string
	Result        *Result
	CreatedAt     time.Time // zero: now
	CompletedAt   time.Time // zero: now, if it is closed
	CompletedBy   string
	Archived      bool // it is closed, and goes straight to the archive

	// HeldBy is who works on it. If the lock of the task is in force when it is
	// added, HeldBy has claimed it; otherwise it is pending.
	HeldBy string
}

// AdoptRequest adds tasks from another system, all of them or none.
type AdoptRequest struct {
	Tasks  []Past
	From   string // for people: where they come from
	By     string
	ID     string // a repetition with this id, within a day, has one effect; empty: there is none
	DryRun bool
}

// Adopt adds tasks, or archives them, as they were in another system.
func Adopt(ctx context.Context, st *store.Store, r AdoptRequest) (AddResult, error) {
	if len(r.Tasks) == 0 || len(r.Tasks) > maxBatch {
		return AddResult{}, &lease.InvalidError{What: "tasks", Rule: fmt.Sprintf("1 to %d at once", maxBatch)}
	}
	return adopt(ctx, st, r, nil)
}

func adopt(ctx context.Context, st *store.Store, r AdoptRequest, groups []fileSection) (AddResult, error) {
	var news []New
	for i := range r.Tasks {
		if err := r.Tasks[i].check(); err != nil {
			return AddResult{}, fmt.Errorf("task %d: %w", i+1, err)
		}
		news = append(news, r.Tasks[i].New)
	}
	id, err := lease.NewRepeatable(r.By, r.ID, "tasks import", []any{contentOf(news), r.Tasks, groups})
	if err != nil {
		return AddResult{}, err
	}
	return addOnce(ctx, st, r.DryRun, id, news, func(tx *store.Tx, out *AddResult) (err error) {
		if err := prefetch(tx, news); err != nil {
			return err
		}
		if out.Sections, err = addSections(tx, groups); err != nil {
			return err
		}
		for i, p := range r.Tasks {
			t, made, err := p.put(tx, r.By, out.Tasks)
			if err != nil {
				return fmt.Errorf("task %d: %w", i+1, err)
			}
			if made {
				out.Sections = append(out.Sections, p.Section)
			}
			out.Tasks = append(out.Tasks, t)
		}
		return r.log(tx, out.Tasks)
	})
}

// check validates a task and fills in defaults.
func (p *Past) check() error {
	if p.Status == "" {
		p.Status = Pending
	}
	switch {
	case !slices.Contains(Statuses, p.Status):
		return &lease.InvalidError{What: "status", Rule: fmt.Sprintf("there is none that is called %q", p.Status)}
	case p.Archived && p.Status.Open():
		return &lease.InvalidError{What: "status", Rule: "only completed, failed and skipped tasks are archived"}
	case p.Archived && p.ID == "":
		return &lease.InvalidError{What: "id", Rule: "an archived task has one"}
	}
	if err := checkReason(p.BlockedReason+p.Progress, p.Result); err != nil {
		return err
	}
	return p.New.check()
}

// put adds one task, as [add] does.
func (p Past) put(tx *store.Tx, by string, earlier []Task) (t Task, made bool, err error) {
	if p.Archived {
		t, err = p.archive(tx, len(earlier))
		return t, false, err
	}
	n := p.New
	var done []string
	if n.DependsOn, done, err = notArchived(tx, n.DependsOn); err != nil {
		return t, false, err
	}
	var lk *lease.Info
	if p.HeldBy != "" {
		if lk, err = lease.Look(tx, p.ID); err != nil {
			return t, false, err
		}
	}
	claimed := lk.InForce() && lk.Owner == p.HeldBy
	if claimed {
		n.Section = "" // it enters the section with its lock, which was taken with that of the section: see [OuterKeyNew]
	}
	if t, made, err = add(tx, n, by, earlier); err != nil {
		return t, false, err
	}
	before := t
	if claimed && p.Section != "" {
		if made, err = ensureSection(tx, p.Section); err != nil {
			return t, false, err
		}
		t.Section = p.Section
	}
	t.DependsOn = append(slices.Clip(t.DependsOn), done...)
	p.fill(tx, &t, len(earlier))
	if t.Status = p.Status; t.Status == InProgress {
		t.Status = Pending
		if claimed {
			since := lk.AcquiredAt
			t.Status, t.ClaimedBy, t.ClaimedAt, t.ClaimLease = InProgress, lk.Owner, &since, lk.LeaseID
			t.Attempts, t.Worktree = 1, lk.Worktree
		}
	}
	return t, made, save(tx, before, &t)
}

// fill writes the task's history. i is its place in the batch, whose order is
// kept.
func (p Past) fill(tx *store.Tx, t *Task, i int) {
	now := tx.Now().UTC()
	if !p.CreatedAt.IsZero() && p.CreatedAt.Before(now) {
		t.CreatedAt = p.CreatedAt.UTC().Add(time.Duration(i))
	}
	t.BlockedReason, t.Progress, t.Result, t.CompletedBy = p.BlockedReason, p.Progress, p.Result, p.CompletedBy
	if !p.Status.Open() {
		if !p.CompletedAt.IsZero() && p.CompletedAt.Before(now) {
			now = p.CompletedAt.UTC()
		}
		t.CompletedAt = &now
	}
}

// archive writes a task that comes archived.
func (p Past) archive(tx *store.Tx, i int) (t Task, err error) {
	t = Task{
		Title: p.Title, Aliases: p.Aliases, Description: p.Description, Status: p.Status, Section: p.Section, Priority: p.Priority,
		DependsOn: p.DependsOn, Labels: once(p.Labels), CreatedAt: tx.Now().UTC().Add(time.Duration(i)), UpdatedAt: tx.Now().UTC(),
	}
	if t.ID, err = newID(tx, p.New); err != nil {
		return t, err
	}
	p.fill(tx, &t, i)
	stored, err := split(tx, Task{}, t)
	if err != nil {
		return t, err
	}
	return t, tx.Put(archiveKind+t.ID, stored)
}

// notArchived takes dependencies on archived tasks that are done out of a list:
// nobody waits for them.
func notArchived(tx *store.Tx, ids []string) (open, done []string, err error) {
	if err := tx.Want(lease.Prefixed(archiveKind, ids)...); err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		e, err := store.Get[Task](tx, archiveKind+id)
		switch {
		case err != nil:
			return nil, nil, err
		case e.Exists() && e.Value.Status.Done():
			done = append(done, id)
		default:
			open = append(open, id)
		}
	}
	return open, done, nil
}

// log writes with which status each task was imported.
func (r AdoptRequest) log(tx *store.Tx, added []Task) error {
	as := map[string][]string{}
	var order []string
	for i, t := range added {
		how := "as " + string(t.Status)
		if r.Tasks[i].Archived {
			how += ", archived"
		}
		if as[how] == nil {
			order = append(order, how)
		}
		as[how] = append(as[how], t.ID)
	}
	for _, how := range order {
		for some := range slices.Chunk(as[how], 100) {
			if err := lease.Log(tx, lease.Event{Event: "task imported", Keys: some, Owner: r.By, Why: how, Reason: r.From}); err != nil {
				return err
			}
		}
	}
	return nil
}

// OuterKeyNew is [Within] for a task that is about to be added to a section.
func OuterKeyNew(section string) func(tx *store.Tx, key string) (string, error) {
	return func(tx *store.Tx, key string) (string, error) {
		t, err := getTask(tx, key)
		if err != nil || t.Exists() || section == "" {
			if err != nil {
				return "", err
			}
			return OuterKey(tx, key)
		}
		return outerKey(tx, section)
	}
}

// RaiseNumber raises the counter of task numbers, so that the next one is at least
// this. It never lowers it.
func RaiseNumber(ctx context.Context, st *store.Store, next int64, dry bool) error {
	_, err := update(ctx, st, dry, query(taskCounter), func(tx *store.Tx) error { return raise(tx, taskCounter, next) })
	return err
}
