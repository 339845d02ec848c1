package legacy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// AdoptRequest puts a Source into a store.
type AdoptRequest struct {
	Source   Source
	By       string // who does it, for the history
	From     string // where it comes from, for people
	Now      time.Time
	Force    bool // also what is locked in the source
	Progress func(done, total int)
	DryRun   bool
}

// AdoptResult says what was taken over.
type AdoptResult struct {
	Sections  int       `json:"sections"`
	Tasks     int       `json:"tasks"`
	Locks     int       `json:"locks"`
	Jobs      int       `json:"jobs"`
	Already   int       `json:"already"`   // tasks and jobs that existed before
	Expired   int       `json:"expired"`   // expired locks
	GivenBack int       `json:"givenBack"` // locks that were taken over before, and have ended here since
	LeftOut   []Problem `json:"leftOut"`
	Changed   []Problem `json:"changed"` // taken over with changes
}

// Adopt adds tasks, locks and jobs to a store. It may be repeated, even after it
// was killed: what exists already does not change. While somebody works in the
// source it returns a [*lease.BusyError], unless forced: then their locks become
// leases here. Locks come first, so that nobody gets a task here that is held
// there.
func Adopt(ctx context.Context, st *store.Store, r AdoptRequest) (AdoptResult, error) {
	a := adoption{ctx: ctx, st: st, r: r, tasks: map[string]Task{}}
	a.out = AdoptResult{
		Expired: r.Source.Expired, LeftOut: append([]Problem{}, r.Source.Problems...), Changed: append([]Problem{}, r.Source.Warnings...),
	}
	if len(r.Source.Locks) > 0 && !r.Force {
		return a.out, &lease.BusyError{Holders: a.holders()}
	}
	if err := a.before(); err != nil {
		return a.out, err
	}
	for _, t := range a.r.Source.Tasks {
		a.tasks[t.ID] = t
	}
	tasks := a.order()
	a.total = len(tasks) + len(r.Source.Locks) + len(r.Source.Jobs)
	if err := a.sections(); err != nil {
		return a.out, err
	}
	a.holding, a.entered = map[string]string{}, map[string]string{}
	for _, l := range a.r.Source.Locks {
		if err := a.hold(l); err != nil {
			return a.out, err
		}
		a.tell(1)
	}
	for chunk := range slices.Chunk(tasks, chunkSize) {
		if err := a.add(chunk); err != nil {
			return a.out, err
		}
		a.tell(len(chunk))
	}
	if n := r.Source.Next; n > 0 {
		if err := task.RaiseNumber(ctx, st, n, r.DryRun); err != nil {
			return a.out, err
		}
	}
	return a.out, a.jobs()
}

// chunkSize is how many tasks go into one commit.
const chunkSize = 250

type adoption struct {
	ctx         context.Context
	st          *store.Store
	r           AdoptRequest
	tasks       map[string]Task
	holding     map[string]string // key → who holds it here for their work there
	entered     map[string]string // lock of a section → who would have it, in a dry run
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

func (a *adoption) changed(where, format string, args ...any) {
	a.out.Changed = append(a.out.Changed, Problem{where, fmt.Sprintf(format, args...)})
}

// before returns tasks to the id of an earlier import: a later session of pi may
// have made that id ambiguous.
func (a *adoption) before() error {
	ids := map[string]string{}
	for _, t := range a.r.Source.Tasks {
		if t.was == "" || t.CreatedAt.IsZero() {
			continue
		}
		here, err := task.Show(a.ctx, a.st, t.was)
		if err != nil && !theirFault(err) {
			return err
		}
		if err == nil && here.ID == t.was && here.Title == t.Title && here.CreatedAt.Sub(t.CreatedAt).Abs() < time.Second {
			a.changed(t.where, "%s was taken over before, and is still called %s here", t.ID, t.was)
			ids[t.ID] = t.was
		}
	}
	if len(ids) == 0 {
		return nil
	}
	src := &a.r.Source
	src.Tasks, src.Locks = slices.Clone(src.Tasks), slices.Clone(src.Locks)
	for i := range src.Tasks {
		t := &src.Tasks[i]
		t.ID, t.DependsOn = cmp.Or(ids[t.ID], t.ID), slices.Clone(t.DependsOn)
		for n, on := range t.DependsOn {
			t.DependsOn[n] = cmp.Or(ids[on], on)
		}
	}
	for i := range src.Locks {
		src.Locks[i].Key = cmp.Or(ids[src.Locks[i].Key], src.Locks[i].Key)
	}
	return nil
}

// order puts every task after its dependencies, and leaves out dependencies that
// cannot be kept.
func (a *adoption) order() []Task {
	return afterDependencies(a.r.Source.Tasks, func(t *Task) (string, *[]string) { return t.ID, &t.DependsOn }, func(t Task, on string, there bool) {
		switch {
		case t.Archived: // it is done
		case there:
			a.changed(t.where, "%s and %s depend on each other; taken over without", t.ID, on)
		default:
			a.changed(t.where, "%s depends on %s, which is not there; taken over without", t.ID, on)
		}
	})
}

// sections makes the missing sections, each after its dependencies.
func (a *adoption) sections() error {
	list := afterDependencies(a.r.Source.Sections, func(s *Section) (string, *[]string) { return s.Name, &s.DependsOn }, func(s Section, on string, _ bool) {
		a.changed("section "+s.Name, "depends on %s, which is not there or depends on it; taken over without", on)
	})
	for _, s := range list {
		if err := a.section(s); err != nil {
			return err
		}
	}
	return nil
}

// afterDependencies puts every item of a list after those that it depends on. It
// leaves out a dependency that is not there, or that waits for the item itself, and
// calls without for it.
func afterDependencies[T any](list []T, of func(*T) (name string, dependsOn *[]string), without func(item T, on string, there bool)) (out []T) {
	byName, begun, done := map[string]T{}, map[string]bool{}, map[string]bool{}
	for _, item := range list {
		name, _ := of(&item)
		byName[name] = item
	}
	var visit func(item T)
	visit = func(item T) {
		name, dependsOn := of(&item)
		begun[name] = true
		var kept []string
		for _, on := range *dependsOn {
			other, there := byName[on]
			if there && !begun[on] {
				visit(other)
			}
			switch {
			case !done[on]:
				without(item, on, there)
			case !slices.Contains(kept, on):
				kept = append(kept, on)
			}
		}
		*dependsOn, done[name] = kept, true
		out = append(out, item)
	}
	for _, item := range list {
		if name, _ := of(&item); !begun[name] {
			visit(item)
		}
	}
	return out
}

func (a *adoption) section(s Section) error {
	r := task.SectionRequest{Name: s.Name, New: true, Skipped: &s.Skipped, On: s.DependsOn, By: a.r.By, DryRun: a.r.DryRun}
	if s.Priority > 0 {
		r.Priority = &s.Priority
	}
	if a.r.DryRun {
		r.On = nil // they were not made
	}
	_, err := task.SetSection(a.ctx, a.st, r)
	switch {
	case err == nil:
		a.out.Sections++
	case existed(err):
		return a.sameSection(s)
	case theirFault(err):
		a.leave("section "+s.Name, err)
	default:
		return err
	}
	return nil
}

// sameSection reports how an existing section differs from the source: skipped
// there, or waiting for others.
func (a *adoption) sameSection(s Section) error {
	found, err := task.Sections(a.ctx, a.st, s.Name)
	if err != nil || len(found.Sections) == 0 {
		return err
	}
	here := found.Sections[0]
	if s.Skipped && !here.Skipped {
		a.changed("section "+s.Name, "is skipped there, and not here, where there was one of that name")
	}
	for _, name := range s.DependsOn {
		if !slices.Contains(here.DependsOn, name) {
			a.changed("section "+s.Name, "depends on %s there, and not here, where there was one of that name", name)
		}
	}
	return nil
}

// add adds tasks in one commit; if it is refused, it finds the task at fault.
func (a *adoption) add(tasks []Task) error {
	var list []task.Past
	for _, t := range tasks {
		t.HeldBy = a.holding[t.ID]
		list = append(list, t.Past)
	}
	out, err := task.Adopt(a.ctx, a.st, task.AdoptRequest{Tasks: list, From: a.r.From, By: a.r.By, DryRun: a.r.DryRun})
	switch {
	case err == nil:
		a.out.Tasks += len(out.Tasks)
		for i, t := range out.Tasks {
			if tasks[i].Status == task.InProgress && t.Status == task.Pending && (!a.r.DryRun || a.holding[t.ID] == "") {
				a.changed(tasks[i].where, "%s was in progress there, and nobody holds it: it is pending now", t.ID)
			}
		}
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

// theirFault reports whether an error is about the added tasks, not the store.
func theirFault(err error) bool {
	var (
		invalid *lease.InvalidError
		state   *task.StateError
		missing *task.NotFoundError
		several *task.AmbiguousError
		cycle   *task.CycleError
		busy    *lease.BusyError
	)
	return errors.As(err, &invalid) || errors.As(err, &state) || errors.As(err, &missing) || errors.As(err, &several) ||
		errors.As(err, &cycle) || errors.As(err, &busy) || errors.Is(err, driver.ErrTooLarge)
}

func existed(err error) bool {
	var state *task.StateError
	return errors.As(err, &state) && state.Why == "exists already"
}

// alone decides about one refused task.
func (a *adoption) alone(t Task, err error) error {
	switch {
	case existed(err):
		return a.already(t)
	case a.r.DryRun && len(t.DependsOn) > 0: // what it depends on was not added
		a.out.Tasks++
	default:
		a.leave(t.where, fmt.Errorf("%s: %w", t.ID, err))
	}
	return nil
}

// already distinguishes a task of an earlier import from another task with its
// id: that one has another title, and was made at another time.
func (a *adoption) already(t Task) error {
	here, err := task.Show(a.ctx, a.st, t.ID)
	var missing *task.NotFoundError
	if err != nil && !errors.As(err, &missing) {
		return err
	}
	other := t.CreatedAt.IsZero() || here.CreatedAt.Sub(t.CreatedAt).Abs() > time.Second
	if err == nil && here.Title != t.Title && other {
		a.leave(t.where, fmt.Errorf("%s: another task has this id here: %q", t.ID, here.Title))
		if owner := a.holding[t.ID]; owner != "" {
			a.changed(t.where, "%s is held here by %s for the work there, though it is another task: tasklock break %s --reason TEXT frees it", t.ID, owner, t.ID)
		}
		return nil
	}
	a.out.Already++
	return nil
}

// jobs adds schedules, paused and without a command: the environment says what
// they ran, for the person who fills it in.
func (a *adoption) jobs() error {
	for _, j := range a.r.Source.Jobs {
		spec := within(j.Spec, 16<<10)
		if len(spec) < len(j.Spec) {
			a.changed(j.where, "%s: its spec is cut to %d bytes", j.Name, len(spec))
		}
		env := map[string]string{"SCHEDULE_ID": j.ID, "SCHEDULE_SPEC": spec}
		if j.Disabled {
			env["SCHEDULE_DISABLED"] = "yes"
		}
		maps.DeleteFunc(env, func(_, text string) bool { return text == "" })
		_, err := schedule.Apply(a.ctx, a.st, schedule.ApplyRequest{
			Jobs: []schedule.Job{{Name: j.Name, Cron: j.Cron, Env: env, Paused: true}}, New: true, By: a.r.By, DryRun: a.r.DryRun,
		})
		var there *schedule.ExistsError
		switch {
		case err == nil:
			a.out.Jobs++
		case errors.As(err, &there):
			here, err := schedule.Show(a.ctx, a.st, j.Name)
			if err != nil { // also if somebody has just removed it: the next import adds it
				return err
			}
			id := here.Env["SCHEDULE_ID"] // a person may have removed it
			if id != j.ID && (here.Cron != j.Cron || id != "" && j.ID != "") {
				a.leave(j.where, fmt.Errorf("%s: another job has this name here, at %s", j.Name, here.Cron))
				break
			}
			a.out.Already++
		case theirFault(err):
			a.leave(j.where, fmt.Errorf("%s: %w", j.Name, err))
		default:
			return err
		}
		a.tell(1)
	}
	return nil
}
