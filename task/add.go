package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// New describes a task to add.
type New struct {
	ID          string   `json:"id,omitempty"` // empty: the next number
	Parent      string   `json:"-"`            // a child's number is counted below its parent
	Title       string   `json:"title"`
	Aliases     []string `json:"aliases,omitempty"` // further names, see [MaxAliases]
	Description string   `json:"description,omitempty"`
	Section     string   `json:"section,omitempty"`
	Priority    int      `json:"priority,omitempty"` // 0: Medium
	DependsOn   []string `json:"dependsOn,omitempty"`
	Labels      []string `json:"labels,omitempty"`
}

// AddRequest adds tasks, all or none. A task may depend on one before it in the
// list.
type AddRequest struct {
	Tasks  []New
	By     string
	ID     string // a repetition with this id, within a day, has one effect; empty: there is none
	DryRun bool
}

// AddResult holds the added tasks, and the sections that were made for them.
type AddResult struct {
	Tasks    []Task   `json:"tasks"`
	Sections []string `json:"sections,omitempty"`
	Repeated bool     `json:"repeated,omitempty"` // the same request added them before: the tasks are as they are now
}

// many tasks have more names than one commit can guard.
const many = driver.MaxGuards / 5

// Add adds tasks.
func Add(ctx context.Context, st *store.Store, r AddRequest) (AddResult, error) {
	if len(r.Tasks) == 0 || len(r.Tasks) > maxBatch {
		return AddResult{}, &lease.InvalidError{What: "tasks", Rule: fmt.Sprintf("1 to %d at once", maxBatch)}
	}
	for i := range r.Tasks {
		if err := r.Tasks[i].check(); err != nil {
			return AddResult{}, err
		}
	}
	id, err := lease.NewRepeatable(r.By, r.ID, "tasks add", contentOf(r.Tasks))
	if err != nil {
		return AddResult{}, err
	}
	tried := false // to commit, and others were faster
	return addOnce(ctx, st, r.DryRun, id, r.Tasks, func(tx *store.Tx, out *AddResult) error {
		if err := prefetch(tx, r.Tasks); err != nil {
			return err
		}
		if len(r.Tasks) > many && !tried {
			lease.GuardLocks(tx)
		}
		for _, n := range r.Tasks {
			t, made, err := add(tx, n, r.By, out.Tasks)
			if err != nil {
				return err
			}
			out.Tasks = append(out.Tasks, t)
			if made {
				out.Sections = append(out.Sections, n.Section)
			}
		}
		tried = true
		return logAll(tx, "add", idsOf(out.Tasks), r.By, "", Pending, "")
	})
}

func (n *New) check() (err error) {
	n.Title = strings.TrimSpace(n.Title)
	if n.Priority == 0 {
		n.Priority = Medium
	}
	if n.ID != "" {
		if n.ID, err = checkID(n.ID); err != nil {
			return err
		}
	}
	if n.Section != "" {
		if n.Section, err = checkSection(n.Section); err != nil {
			return err
		}
	}
	if n.Aliases, err = checkAliases(n.Aliases); err != nil {
		return err
	}
	if len(n.DependsOn) > MaxDepends {
		return &lease.InvalidError{What: "dependencies", Rule: fmt.Sprintf("at most %d", MaxDepends)}
	}
	return checkFields(n.Title, n.Description, n.Priority, n.Labels)
}

func checkFields(title, description string, priority int, labels []string) error {
	return cmp.Or(checkPriority(priority), checkLabels(labels), checkTexts(title, description))
}

func checkTexts(title, description string) error {
	switch {
	case title == "":
		return &lease.InvalidError{What: "title", Rule: "must not be empty"}
	case len(title) > MaxTitle:
		return &lease.InvalidError{What: "title", Rule: fmt.Sprintf("has %d bytes, at most %d", len(title), MaxTitle)}
	case strings.ContainsAny(title, "\n\r") || !utf8.ValidString(title) || strings.ContainsRune(title, 0):
		return &lease.InvalidError{What: "title", Rule: "must be one line of valid text"}
	case len(description) > MaxDescription:
		return &lease.InvalidError{What: "description", Rule: fmt.Sprintf("has %d bytes, at most %d", len(description), MaxDescription)}
	case !utf8.ValidString(description) || strings.ContainsRune(description, 0):
		return &lease.InvalidError{What: "description", Rule: "must be valid text"}
	}
	return nil
}

func checkPriority(p int) error {
	if p < 1 || p > 999 {
		return &lease.InvalidError{What: "priority", Rule: "must be high, medium, low, or a number from 1 (first) to 999"}
	}
	return nil
}

func checkLabels(labels []string) error {
	if len(labels) > MaxLabels {
		return &lease.InvalidError{What: "labels", Rule: fmt.Sprintf("at most %d", MaxLabels)}
	}
	for _, l := range labels {
		if l == "" || len(l) > 100 || !utf8.ValidString(l) || strings.ContainsAny(l, ",\n\r\x00") {
			return &lease.InvalidError{What: "label", Rule: "must have 1 to 100 bytes, no comma and no line break"}
		}
	}
	return nil
}

// checkAliases normalises the aliases of a task: they are keys, as ids are.
func checkAliases(aliases []string) (out []string, err error) {
	for _, a := range aliases {
		key, err := checkID(a)
		if err != nil {
			return nil, err
		}
		out = append(out, key)
	}
	if out = once(out); len(out) > MaxAliases {
		return nil, &lease.InvalidError{What: "aliases", Rule: fmt.Sprintf("%d of one task, at most %d", len(out), MaxAliases)}
	}
	return out, nil
}

// once returns each label once, in the order given.
func once(labels []string) (out []string) {
	for _, l := range labels {
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// checkID normalises an id: a key that names a task.
func checkID(id string) (string, error) {
	key, err := lease.CheckKey(id)
	if err != nil {
		return "", err
	}
	if kind, _ := lease.KindOf(key); kind != lease.Task {
		return "", &lease.InvalidError{What: "id " + strconv.Quote(id), Rule: "must not begin with section:, job: or path:"}
	}
	return key, nil
}

// prefetch reads at once what adding the tasks one after another needs.
func prefetch(tx *store.Tx, list []New) error {
	keys := []string{taskCounter}
	for _, n := range list {
		if n.Section != "" {
			keys = append(keys, sectionKind+n.Section)
		}
		if m := numbered().FindStringSubmatch(n.ID); m != nil {
			keys = append(keys, counterOf(m[1]))
		}
		for _, id := range exact(n.Parent) {
			keys = append(keys, counterOf(id+"_"))
		}
		keys = append(keys, needFind(append(slices.Clip(n.DependsOn), n.Parent))...)
	}
	if err := tx.Want(keys...); err != nil {
		return err
	}
	drawn := map[string]int64{}
	for _, n := range list {
		id, err := n.likelyID(tx, drawn)
		if err != nil {
			return err
		}
		keys = append(keys, taskKind+id, archiveKind+id)
		keys = append(keys, lease.NeedNames(id, append([]string{n.Title}, n.Aliases...))...)
		keys = append(keys, lease.NeedLook(id).Keys...)
	}
	return tx.Want(keys...)
}

// likelyID is the id that a task will get, after drawn numbers from each counter.
func (n New) likelyID(tx *store.Tx, drawn map[string]int64) (string, error) {
	if n.ID != "" {
		return n.ID, nil
	}
	prefix := "t"
	if n.Parent != "" {
		parent, err := findExact(tx, n.Parent)
		if err != nil {
			return "", err
		}
		prefix = parent.ID + "_"
	}
	c, err := store.Get[counter](tx, counterOf(prefix))
	drawn[prefix]++
	return prefix + strconv.FormatInt(max(c.Value.Next, 1)+drawn[prefix]-1, 10), err
}

// add puts one task into the transaction, which has added earlier before. Each is
// younger than those, so that workers take a list in its order.
func add(tx *store.Tx, n New, by string, earlier []Task) (t Task, made bool, err error) {
	t = Task{
		ID: n.ID, Title: n.Title, Aliases: n.Aliases, Description: n.Description, Status: Pending, Section: n.Section,
		Priority: n.Priority, Labels: once(n.Labels), CreatedAt: tx.Now().UTC().Add(time.Duration(len(earlier))), // a batch keeps its order
	}
	if t.ID, err = newID(tx, n); err != nil {
		return t, false, err
	}
	if err := checkPlace(n.Section, t.ID); err != nil {
		return t, false, err
	}
	if n.Section != "" {
		if made, err = enterSection(tx, n.Section, t.ID, by); err != nil {
			return t, false, err
		}
	}
	for _, ref := range n.DependsOn {
		dep, err := findAdded(tx, ref, earlier)
		if err != nil {
			return t, false, err
		}
		if err := link(tx, &t, dep); err != nil {
			return t, false, err
		}
	}
	return t, made, save(tx, Task{}, &t)
}

// findAdded is find that also knows the titles of earlier.
func findAdded(tx *store.Tx, ref string, earlier []Task) (Task, error) {
	if t, err := findExact(tx, ref); t.ID != "" || err != nil {
		return t, err
	}
	for _, t := range earlier {
		if t.Title == ref {
			return mustTask(tx, t.ID)
		}
	}
	return find(tx, ref)
}

// link makes t depend on dep, in both records. The caller saves t.
func link(tx *store.Tx, t *Task, dep Task) error {
	if dep.ID == t.ID {
		return &CycleError{IDs: []string{t.ID}}
	}
	if slices.Contains(t.DependsOn, dep.ID) {
		return nil
	}
	if len(t.DependsOn) >= MaxDepends || len(dep.Dependents) >= maxBatch {
		return &lease.InvalidError{What: "dependencies of " + t.ID, Rule: fmt.Sprintf("at most %d, and at most %d tasks on one", MaxDepends, maxBatch)}
	}
	if err := fits(tx, *t, dep); err != nil {
		return err
	}
	t.DependsOn = append(slices.Clip(t.DependsOn), dep.ID)
	if !dep.Status.Done() {
		t.WaitsFor = append(slices.Clip(t.WaitsFor), dep.ID)
	}
	before := dep
	dep.Dependents = append(slices.Clip(dep.Dependents), t.ID)
	return save(tx, before, &dep)
}

const taskCounter = counterKind + "task"

type counter struct {
	Next int64 `json:"next"`
}

var numbered = lazily(`^(t|.+_)(\d{1,15})$`)

// counterOf is the counter for ids with that prefix: "t", or the parent's id and
// "_".
func counterOf(prefix string) string {
	if prefix == "t" {
		return taskCounter
	}
	return counterKind + prefix
}

// newID returns the id for a new task: the one it was given, if that is free,
// else the next number, which is never given out again.
func newID(tx *store.Tx, n New) (string, error) {
	if n.ID != "" {
		if m := numbered().FindStringSubmatch(n.ID); m != nil { // a number given by hand is used up too
			num, _ := strconv.ParseInt(m[2], 10, 64)
			if err := raise(tx, counterOf(m[1]), num+1); err != nil {
				return "", err
			}
		}
		return n.ID, unused(tx, n.ID)
	}
	prefix := "t"
	if n.Parent != "" {
		parent, err := find(tx, n.Parent)
		if err != nil {
			return "", err
		}
		prefix = parent.ID + "_"
	}
	for {
		num, err := take(tx, counterOf(prefix))
		if err != nil {
			return "", err
		}
		id, err := checkID(prefix + strconv.FormatInt(num, 10))
		if err != nil {
			return "", err
		}
		err = unused(tx, id)
		if _, taken := err.(*StateError); !taken {
			return id, err
		}
	}
}

// unused refuses an id that a task has, or had before it was archived.
func unused(tx *store.Tx, id string) error {
	if err := tx.Want(taskKind+id, archiveKind+id); err != nil {
		return err
	}
	for _, kind := range []string{taskKind, archiveKind} {
		e, err := store.Get[Task](tx, kind+id)
		if err != nil {
			return err
		}
		if e.Exists() {
			return &StateError{ID: id, Status: e.Value.Status, Why: "exists already"}
		}
	}
	return nil
}

// take draws the next number of a counter.
func take(tx *store.Tx, name string) (int64, error) {
	c, err := store.Get[counter](tx, name)
	if err != nil {
		return 0, err
	}
	n := max(c.Value.Next, 1)
	return n, tx.Put(name, counter{Next: n + 1})
}

// raise raises a counter; it never goes down.
func raise(tx *store.Tx, name string, next int64) error {
	c, err := store.Get[counter](tx, name)
	if err != nil || c.Value.Next >= next {
		return err
	}
	return tx.Put(name, counter{Next: next})
}

// update commits what fn writes, or with dry only runs it.
func update(ctx context.Context, st *store.Store, dry bool, need driver.Query, fn func(*store.Tx) error) (int64, error) {
	for {
		rev, err := lease.UpdateOrLook(ctx, st, dry, need, fn)
		b, long := errors.AsType[*bulky](err)
		if dry || !long {
			return rev, err
		}
		if err := b.slim(ctx, st); err != nil {
			return 0, err
		}
	}
}
