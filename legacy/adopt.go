package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// AdoptRequest puts what was found into a store.
type AdoptRequest struct {
	Source   Source
	By       string // who does it, for the history
	From     string // where it comes from, for people
	Times    lock.Times
	Now      time.Time
	Force    bool // also what is locked there
	Progress func(done, total int)
	DryRun   bool
}

// AdoptResult tells what was taken over.
type AdoptResult struct {
	Sections int       `json:"sections"`
	Tasks    int       `json:"tasks"`
	Locks    int       `json:"locks"`
	Already  int       `json:"already"` // tasks that were there before
	Expired  int       `json:"expired"` // locks that are over
	LeftOut  []Problem `json:"leftOut"`
}

// Adopt adds tasks and locks to a store. It may be repeated: what is there
// already stays as it is. While somebody works there it is refused with a
// [*lock.BusyError], unless forced: then their locks are leases here, for the
// time they have left.
func Adopt(ctx context.Context, st *store.Store, r AdoptRequest) (AdoptResult, error) {
	a := adoption{ctx: ctx, st: st, r: r}
	a.out = AdoptResult{Expired: r.Source.Expired, LeftOut: append([]Problem{}, r.Source.Problems...)}
	if len(r.Source.Locks) > 0 && !r.Force {
		return a.out, &lock.BusyError{Holders: a.holders()}
	}
	tasks := a.order()
	a.total = len(tasks) + len(r.Source.Locks)
	if err := a.sections(); err != nil {
		return a.out, err
	}
	for chunk := range slices.Chunk(tasks, chunkSize) {
		if err := a.add(chunk); err != nil {
			return a.out, err
		}
		a.tell(len(chunk))
	}
	for _, l := range r.Source.Locks {
		if err := a.hold(l); err != nil {
			return a.out, err
		}
		a.tell(1)
	}
	return a.out, nil
}

// chunkSize is how many tasks come in one commit.
const chunkSize = 250

type adoption struct {
	ctx         context.Context
	st          *store.Store
	r           AdoptRequest
	out         AdoptResult
	done, total int
}

func (a *adoption) tell(n int) {
	if a.done += n; a.r.Progress != nil {
		a.r.Progress(a.done, a.total)
	}
}

func (a *adoption) leave(where string, err error) {
	a.out.LeftOut = append(a.out.LeftOut, Problem{where, err.Error()})
}

func (a *adoption) holders() (list []lock.Info) {
	for _, l := range a.r.Source.Locks {
		list = append(list, lock.Info{
			Key: l.Key, Owner: l.Owner, AcquiredAt: l.Since, HeartbeatAt: l.Since, ExpiresAt: l.until(a.r),
			State: lock.Held, Host: l.Host, Worktree: l.Worktree,
		})
	}
	return list
}

func (l Lock) until(r AdoptRequest) time.Time {
	if !l.Until.IsZero() {
		return l.Until
	}
	return r.Now.Add(r.Times.Of(l.Key))
}

// order puts every task behind those it depends on, and leaves out the
// dependencies that cannot be kept.
func (a *adoption) order() []Task {
	byID := map[string]Task{}
	for _, t := range a.r.Source.Tasks {
		byID[t.ID] = t
	}
	state := map[string]int{} // 1: being visited, 2: done
	var out []Task
	var visit func(t Task)
	visit = func(t Task) {
		state[t.ID] = 1
		kept := t.DependsOn[:0:0]
		for _, id := range t.DependsOn {
			dep, there := byID[id]
			switch {
			case !there:
				a.leave(t.where, fmt.Errorf("%s depends on %s, which is not there; taken over without", t.ID, id))
				continue
			case state[id] == 1:
				a.leave(t.where, fmt.Errorf("%s and %s depend on each other; taken over without", t.ID, id))
				continue
			case slices.Contains(kept, id):
				continue
			case state[id] == 0:
				visit(dep)
			}
			kept = append(kept, id)
		}
		t.DependsOn = kept
		state[t.ID] = 2
		out = append(out, t)
	}
	for _, t := range a.r.Source.Tasks {
		if state[t.ID] == 0 {
			visit(t)
		}
	}
	return out
}

// sections makes those that are not there yet, and then their order.
func (a *adoption) sections() error {
	var made []Section
	for _, s := range a.r.Source.Sections {
		r := task.SectionRequest{Name: s.Name, New: true, Skipped: &s.Skipped, By: a.r.By, DryRun: a.r.DryRun}
		if s.Priority > 0 {
			r.Priority = &s.Priority
		}
		_, err := task.SetSection(a.ctx, a.st, r)
		switch {
		case err == nil:
			a.out.Sections++
			made = append(made, s)
		case existed(err):
		case theirFault(err):
			a.leave("section "+s.Name, err)
		default:
			return err
		}
	}
	for _, s := range made {
		if len(s.DependsOn) == 0 || a.r.DryRun {
			continue
		}
		_, err := task.SetSection(a.ctx, a.st, task.SectionRequest{Name: s.Name, On: s.DependsOn, By: a.r.By})
		if err != nil && !theirFault(err) {
			return err
		}
		if err != nil {
			a.leave("section "+s.Name, fmt.Errorf("%w; taken over without its dependencies", err))
		}
	}
	return nil
}

// add puts tasks on the list, all in one commit; where one of them is refused,
// it finds out which.
func (a *adoption) add(tasks []Task) error {
	data, err := json.Marshal(map[string]any{"tasks": tasks})
	if err != nil {
		return err
	}
	out, err := task.Import(a.ctx, a.st, task.ImportRequest{Data: data, Format: "json", By: a.r.By, DryRun: a.r.DryRun})
	switch {
	case err == nil:
		a.out.Tasks += len(out.Tasks)
		return nil
	case !theirFault(err):
		return err
	case len(tasks) > 1:
		half := len(tasks) / 2
		if err := a.add(tasks[:half]); err != nil {
			return err
		}
		return a.add(tasks[half:])
	}
	return a.alone(tasks[0], err)
}

// theirFault reports an error about what is added, not about the store.
func theirFault(err error) bool {
	var (
		invalid *lock.InvalidError
		state   *task.StateError
		missing *task.NotFoundError
		several *task.AmbiguousError
		cycle   *task.CycleError
		busy    *lock.BusyError
	)
	return errors.As(err, &invalid) || errors.As(err, &state) || errors.As(err, &missing) || errors.As(err, &several) ||
		errors.As(err, &cycle) || errors.As(err, &busy) || errors.Is(err, driver.ErrTooLarge)
}

func existed(err error) bool {
	var state *task.StateError
	return errors.As(err, &state) && state.Why == "exists already"
}

// alone decides about one task that was refused.
func (a *adoption) alone(t Task, err error) error {
	switch {
	case existed(err):
		a.out.Already++
	case a.r.DryRun && len(t.DependsOn) > 0: // what it depends on was not added
		a.out.Tasks++
	default:
		a.leave(t.where, fmt.Errorf("%s: %w", t.ID, err))
	}
	return nil
}

// hold makes a lease of a lock: with the task's status, where it is a task.
func (a *adoption) hold(l Lock) error {
	ttl := l.until(a.r).Sub(a.r.Now)
	req := lock.AcquireRequest{
		Owner: l.Owner, TTL: min(max(ttl, lock.MinTTL), lock.MaxTTL), Times: a.r.Times,
		Worktree: within(l.Worktree, lock.MaxText), Reason: "held in " + a.r.From, DryRun: a.r.DryRun,
	}
	err := a.take(l, req)
	var held *lock.HeldError
	switch {
	case err == nil:
		a.out.Locks++
		return nil
	case errors.As(err, &held), theirFault(err):
		a.leave(l.where, fmt.Errorf("lock on %s of %s: %w", l.Key, l.Owner, err))
		return nil
	}
	return err
}

func (a *adoption) take(l Lock, req lock.AcquireRequest) error {
	i := slices.IndexFunc(a.r.Source.Tasks, func(t Task) bool { return t.ID == l.Key })
	if i >= 0 && a.r.Source.Tasks[i].Status == task.InProgress && !a.r.DryRun {
		_, err := task.ClaimTasks(a.ctx, a.st, task.ClaimRequest{Tasks: []string{l.Key}, Acquire: req})
		var state *task.StateError
		if !errors.As(err, &state) {
			return err
		}
	}
	req.Keys, req.Within = []string{l.Key}, task.Within
	_, err := lock.Acquire(a.ctx, a.st, req)
	return err
}
