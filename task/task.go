// Package task keeps a list of tasks that many workers share. It builds on package
// lease and changes a task and its lock in the same commit.
//
// # Guarantee
//
// A claim is lock, section lock and status in one commit; a completion is
// fence, status and release in one commit. Two workers never get the same
// task, and what a worker reports after its claim was taken over is refused
// with lock.ErrLost and changes nothing. Batches are all or nothing.
//
// # Limit
//
// in_progress counts only while the lock does. When the holder dies, no commit says
// so: a task without the lock of its claim counts as pending, and everything here
// treats it so.
//
// # Records
//
//	task/<id>            the task; archive/<id> once it left the working set
//	text/<id>            a long description, of an archived task too
//	section/<name>       order, dependencies, shared or exclusive
//	ready/<section>/<priority>-<created>-<id>   open tasks whose dependencies are met, in the order of [Next]
//	ready/<section>/~<due>-<id>   those in progress, in the order in which their claims may expire: see index.go
//	open/<section>/<id>  open tasks of a section, ready or not
//	counter/<name>       the next number for ids
//	name/<name>          the tasks with that id, number, title or alias; see package lease
//
// A dependency is written in both tasks, and each task lists those that are
// still open, so that a completion finds what it makes ready without a scan.
package task

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// Limits of a task.
const (
	MaxTitle       = 500
	MaxDescription = 32 << 10
	MaxLabels      = 50
	MaxAliases     = 8
	MaxDepends     = 200
	maxBatch       = 1000 // tasks in one commit
)

// Priorities: the lowest comes first.
const (
	High   = 100
	Medium = 500
	Low    = 900
)

const (
	taskKind    = "task/"
	archiveKind = "archive/"
	sectionKind = "section/"
	readyKind   = "ready/"
	openKind    = "open/"
	counterKind = "counter/"
)

// Task is one piece of work.
type Task struct {
	ID          string   `json:"id"`
	Title       string   `json:"title"`
	Aliases     []string `json:"aliases,omitempty"` // further names
	Description string   `json:"description,omitempty"`
	LongText    bool     `json:"longText,omitempty"` // the description has its own record: see text.go
	Status      Status   `json:"status"`
	Section     string   `json:"section,omitempty"`
	Priority    int      `json:"priority"`
	DependsOn   []string `json:"dependsOn,omitempty"`
	Labels      []string `json:"labels,omitempty"`

	WaitsFor   []string `json:"waitsFor,omitempty"`   // those of DependsOn that are not done
	Dependents []string `json:"dependents,omitempty"` // who depends on this one

	ClaimedBy  string     `json:"claimedBy,omitempty"`
	ClaimedAt  *time.Time `json:"claimedAt,omitempty"`
	ClaimLease string     `json:"claimLease,omitempty"` // the lock counts for this claim only while it has this lease
	ClaimDue   *time.Time `json:"claimDue,omitempty"`   // no earlier does the claim expire: its place in the index
	Attempts   int        `json:"attempts,omitempty"`
	Progress   string     `json:"progress,omitempty"`
	Worktree   string     `json:"worktree,omitempty"`

	Result        *Result `json:"result,omitempty"`
	BlockedReason string  `json:"blockedReason,omitempty"`

	CreatedAt   time.Time  `json:"createdAt"`
	UpdatedAt   time.Time  `json:"updatedAt"`
	CompletedAt *time.Time `json:"completedAt,omitempty"`
	CompletedBy string     `json:"completedBy,omitempty"` // who closed it

	// The last verb that carried a token, so that repeating it succeeds again.
	LastVerb  Verb   `json:"lastVerb,omitempty"`
	LastToken int64  `json:"lastToken,omitempty"`
	LastLease string `json:"lastLease,omitempty"` // of that token; empty in records of older versions
}

// Result is the result of a task.
type Result struct {
	Summary string   `json:"summary,omitempty"`
	Commits []string `json:"commits,omitempty"`
	Tests   []string `json:"tests,omitempty"`
}

// StateError: the task's state does not allow it.
type StateError struct {
	ID       string
	Status   Status
	Why      string
	WaitsFor []string // keys of the tasks or sections that it waits for
}

func (e *StateError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("%s: %s", e.ID, e.Why)
	}
	return fmt.Sprintf("%s: is %s", e.ID, e.Status)
}

// NotFoundError: no task or section has that name.
type NotFoundError struct {
	What, Ref string
	Archived  bool // it was archived
}

func (e *NotFoundError) Error() string {
	if e.Archived {
		return fmt.Sprintf("%s %q is archived", e.What, e.Ref)
	}
	return fmt.Sprintf("no %s %q", e.What, e.Ref)
}

// Is makes it like the error for a lock that does not exist.
func (e *NotFoundError) Is(target error) bool { return target == lease.ErrNotFound }

// AmbiguousError: several tasks have that name.
type AmbiguousError struct {
	Ref     string
	Matches []Task
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q could be %s", e.Ref, strings.Join(idsOf(e.Matches), ", "))
}

func getTask(tx *store.Tx, id string) (store.Entry[Task], error) {
	return store.Get[Task](tx, taskKind+id)
}

// mustTask is getTask of a task that must exist.
func mustTask(tx *store.Tx, id string) (Task, error) {
	e, err := getTask(tx, id)
	if err != nil {
		return Task{}, err
	}
	if !e.Exists() {
		return Task{}, &NotFoundError{What: "task", Ref: id}
	}
	return e.Value, nil
}

// save writes a task and its index entries, and notes when. before is the task as
// it was read; the zero Task for a new one.
func save(tx *store.Tx, before Task, after *Task) error {
	return saveOver(tx, before, after, before.trace())
}

// saveOver is save for a caller that knows which further entry of the task may exist.
func saveOver(tx *store.Tx, before Task, after *Task, trace string) error {
	after.UpdatedAt = tx.Now().UTC()
	if !slices.Equal(before.names(), after.names()) {
		if err := lease.SetNames(tx, after.ID, before.names(), after.names()); err != nil {
			return err
		}
	}
	if err := reindex(tx, before, *after, trace); err != nil {
		return err
	}
	stored, err := split(tx, before, *after)
	if err != nil {
		return err
	}
	return tx.Put(taskKind+after.ID, stored)
}

// names are a task's names besides its id; nil for no task.
func (t Task) names() []string {
	if t.ID == "" {
		return nil
	}
	return append([]string{t.Title}, t.Aliases...)
}

// clone copies what a change might share with the snapshot.
func (t Task) clone() Task {
	t.DependsOn, t.WaitsFor, t.Dependents = slices.Clone(t.DependsOn), slices.Clone(t.WaitsFor), slices.Clone(t.Dependents)
	t.Labels, t.Aliases = slices.Clone(t.Labels), slices.Clone(t.Aliases)
	return t
}

// log writes the audit event of a change.
func log(tx *store.Tx, verb Verb, id, by string, from, to Status, reason string) error {
	return logAll(tx, verb, []string{id}, by, from, to, reason)
}

// logAll is log for many tasks, in a few events.
func logAll(tx *store.Tx, verb Verb, ids []string, by string, from, to Status, reason string) error {
	why := string(from) + " → " + string(to)
	if from == to || from == "" {
		why = string(to)
	}
	for some := range slices.Chunk(ids, 100) {
		if err := lease.Log(tx, lease.Event{Event: "task " + string(verb), Keys: some, Owner: by, Why: why, Reason: reason}); err != nil {
			return err
		}
	}
	return nil
}

func idsOf(list []Task) (ids []string) {
	for _, t := range list {
		ids = append(ids, t.ID)
	}
	return ids
}
