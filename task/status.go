package task

import "slices"

// Status of a task.
type Status string

// The statuses.
const (
	Pending    Status = "pending"
	InProgress Status = "in_progress"
	Review     Status = "review"
	Completed  Status = "completed"
	Failed     Status = "failed"
	Blocked    Status = "blocked"
	Skipped    Status = "skipped"
)

// Statuses in the order of a task's life.
var Statuses = []Status{Pending, InProgress, Review, Completed, Failed, Blocked, Skipped}

// Open reports whether the task is not closed.
func (s Status) Open() bool {
	return s == Pending || s == InProgress || s == Review || s == Blocked
}

// Done reports whether tasks that depend on this one may start.
func (s Status) Done() bool { return s == Completed || s == Skipped }

// Verb changes the status of a task.
type Verb string

// The verbs.
const (
	Claim    Verb = "claim"
	Unclaim  Verb = "unclaim"
	Submit   Verb = "review"
	Complete Verb = "complete"
	Fail     Verb = "fail"
	Block    Verb = "block"
	Unblock  Verb = "unblock"
	Skip     Verb = "skip"
	Reset    Verb = "reset"
)

// transitions is the whole life of a task: which verb leads where, and from
// which statuses. Every verb but claim frees the task's lock.
var transitions = map[Verb]struct {
	to   Status
	from []Status
}{
	Claim:    {InProgress, []Status{Pending, Review}},
	Unclaim:  {Pending, []Status{InProgress}},
	Submit:   {Review, []Status{Pending, InProgress}},
	Complete: {Completed, []Status{Pending, InProgress, Review, Blocked}},
	Fail:     {Failed, []Status{Pending, InProgress, Review}},
	Block:    {Blocked, []Status{Pending, InProgress, Review}},
	Unblock:  {Pending, []Status{Blocked}},
	Skip:     {Skipped, []Status{Pending, InProgress, Review, Blocked, Failed}},
	Reset:    {Pending, []Status{Pending, InProgress, Review, Completed, Failed, Blocked, Skipped}},
}

// VerbTo returns the verb that leads to a status.
func VerbTo(to Status) (Verb, bool) {
	for _, v := range []Verb{Reset, Claim, Submit, Complete, Fail, Block, Skip} {
		if transitions[v].to == to {
			return v, true
		}
	}
	return "", false
}

// step returns where a verb leads from a status, or refuses.
func (v Verb) step(id string, from Status) (Status, error) {
	t := transitions[v]
	if !slices.Contains(t.from, from) {
		return "", &StateError{ID: id, Status: from, Why: "cannot " + string(v) + " a task that is " + string(from)}
	}
	return t.to, nil
}
