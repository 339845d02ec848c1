package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func (s *Server) taskOps() ops {
	return ops{
		"GET /v1/tasks":           op(access.Viewer, s.listTasks),
		"GET /v1/tasks/show":      op(access.Viewer, s.showTask),
		"GET /v1/tasks/counts":    op(access.Viewer, s.countTasks),
		"POST /v1/tasks/add":      op(access.Worker, s.addTasks).named(),
		"POST /v1/tasks/next":     op(access.Worker, s.nextTask).named().waiting(),
		"POST /v1/tasks/claim":    op(access.Worker, s.claimTasks).named().waiting(),
		"POST /v1/tasks/complete": op(access.Worker, s.ended(task.Complete)),
		"POST /v1/tasks/fail":     op(access.Worker, s.ended(task.Fail)),
		"POST /v1/tasks/unclaim":  op(access.Worker, s.ended(task.Unclaim)),
		"POST /v1/tasks/block":    op(access.Worker, s.blocked(task.Block)),
		"POST /v1/tasks/unblock":  op(access.Worker, s.blocked(task.Unblock)),
		"POST /v1/tasks/progress": op(access.Worker, s.progress),
		"POST /v1/tasks/reset":    op(access.Operator, s.resetTasks),
		"POST /v1/tasks/archive":  op(access.Operator, s.archiveTasks),
	}
}

type tasksInput struct {
	Status   []task.Status `json:"status"`
	Section  string        `json:"section"`
	Label    string        `json:"label"`
	Owner    string        `json:"owner"` // claimed by this owner or one below
	Ready    bool          `json:"ready"`
	Stalled  bool          `json:"stalled"`
	Archived bool          `json:"archived"`
	Older    Duration      `json:"older"` // in progress, and no heartbeat for this long
	pageInput
}

func (s *Server) listTasks(ctx context.Context, c Caller, in tasksInput) (task.ListResult, error) {
	limit, err := in.size()
	if err != nil {
		return task.ListResult{}, err
	}
	return task.List(ctx, s.st, task.ListRequest{
		After: in.After, Limit: limit,
		Status: in.Status, Section: in.Section, Label: in.Label, Owner: in.Owner, Caller: c.Owner,
		Ready: in.Ready, Stalled: in.Stalled, Archived: in.Archived, Older: time.Duration(in.Older),
	})
}

type taskInput struct {
	Task string `json:"task"` // an id, the beginning of one, or a title
}

func (s *Server) showTask(ctx context.Context, _ Caller, in taskInput) (task.Info, error) {
	return task.Show(ctx, s.st, in.Task)
}

func (s *Server) countTasks(ctx context.Context, _ Caller, _ noInput) (task.Stats, error) {
	return task.Count(ctx, s.st)
}

type addTasksInput struct {
	Tasks []newTask `json:"tasks"`
}

type newTask struct {
	task.New
	Parent string `json:"parent"`
}

func (s *Server) addTasks(ctx context.Context, c Caller, in addTasksInput) (task.AddResult, error) {
	r := task.AddRequest{By: c.Owner, ID: c.Request}
	for _, n := range in.Tasks {
		n.New.Parent = n.Parent
		r.Tasks = append(r.Tasks, n.New)
	}
	return task.Add(ctx, s.st, r)
}

// holdInput is how long a claim lasts, and how long to wait for it.
type holdInput struct {
	TTL     Duration  `json:"ttl"`
	MaxHold Duration  `json:"maxHold"`
	Wait    *Duration `json:"wait"`
	Reason  string    `json:"reason"`
}

// Claimed is a claim of tasks. Each key of the grant has a token of its own: complete
// and the other verbs need that of their task.
type Claimed struct {
	Acquired             // its state is also "none": no task is ready
	Tasks    []task.Task `json:"tasks,omitempty"`
}

type nextInput struct {
	Section string `json:"section"`
	Label   string `json:"label"`
	Pool    string `json:"pool"` // take a slot of this pool together with the task
	holdInput
}

// nextTask claims the next task that is ready. It waits only if it is asked to.
func (s *Server) nextTask(ctx context.Context, c Caller, in nextInput) (Claimed, error) {
	wait, err := waitOf(cmp.Or(in.Wait, new(Duration)))
	if err != nil {
		return Claimed{}, err
	}
	r := task.NextRequest{Section: in.Section, Label: in.Label, Claim: true, Wait: wait}
	if in.Pool != "" {
		if r.Pool, err = lease.PoolKey(in.Pool); err != nil {
			return Claimed{}, err
		}
	}
	in.Wait = nil
	if r.Acquire, err = c.take("next", in, in.holdInput); err != nil {
		return Claimed{}, err
	}
	out, err := task.Next(ctx, s.st, r)
	stopped := errors.Is(context.Cause(ctx), errStopping) && !errors.Is(err, store.ErrUnknown)
	switch {
	case err == nil:
		return Claimed{acquired(*out.Grant), []task.Task{out.Task}}, nil
	case errors.Is(err, task.ErrNothingReady) || stopped:
		return Claimed{Acquired: Acquired{State: "none"}}, nil
	}
	return Claimed{}, err
}

type claimInput struct {
	Tasks []string `json:"tasks"`
	holdInput
}

// claimTasks claims tasks, all or none, and waits for those that others hold.
func (s *Server) claimTasks(ctx context.Context, c Caller, in claimInput) (Claimed, error) {
	wait, err := waitOf(in.Wait)
	if err != nil {
		return Claimed{}, err
	}
	in.Wait = nil
	r, err := c.take("claim", in, in.holdInput)
	if err != nil {
		return Claimed{}, err
	}
	r.Wait = wait
	var out task.ClaimResult
	got, err := c.queue(ctx, r, func(r lease.AcquireRequest) (g lease.Grant, err error) {
		out, err = task.ClaimTasks(ctx, s.st, task.ClaimRequest{Tasks: in.Tasks, Acquire: r})
		return out.Grant, err
	})
	return Claimed{got, out.Tasks}, err
}

// claimedInput names a claim by what it answered.
type claimedInput struct {
	Task  string `json:"task"`
	Lease string `json:"lease"`
	Token int64  `json:"token"` // of the task
}

// mine refuses a claim that is not below the caller's owner. Everybody can read a token: it is
// in every list.
func (in claimedInput) mine(c Caller) error {
	if in.Token <= 0 {
		return &lease.InvalidError{What: "token", Rule: "is needed: that of the claim of the task"}
	}
	return heldInput{Lease: in.Lease}.mine(c)
}

type endInput struct {
	claimedInput
	Reason string       `json:"reason"`
	Result *task.Result `json:"result"`
}

// ended is a verb of the one who claimed a task, which ends the claim.
func (s *Server) ended(verb task.Verb) func(context.Context, Caller, endInput) (task.ChangeResult, error) {
	return func(ctx context.Context, c Caller, in endInput) (task.ChangeResult, error) {
		if err := in.mine(c); err != nil {
			return task.ChangeResult{}, err
		}
		return task.ChangeStatus(ctx, s.st, task.StatusRequest{
			Verb: verb, Tasks: []string{in.Task}, Owner: c.Owner, Token: in.Token, Lease: in.Lease, Reason: in.Reason, Result: in.Result,
		})
	}
}

// blocked is a verb for a claimed task, as [Server.ended] is, or for one that nobody
// holds.
func (s *Server) blocked(verb task.Verb) func(context.Context, Caller, endInput) (task.ChangeResult, error) {
	ended := s.ended(verb)
	return func(ctx context.Context, c Caller, in endInput) (task.ChangeResult, error) {
		if in.Token != 0 || in.Lease != "" {
			return ended(ctx, c, in)
		}
		// It acts as a child of its own, which does not hold what other clients with this key do.
		child := c.Owner + "/" + cmp.Or(c.Request, lease.NewID())
		return task.ChangeStatus(ctx, s.st, task.StatusRequest{Verb: verb, Tasks: []string{in.Task}, Owner: child, Reason: in.Reason})
	}
}

type progressInput struct {
	claimedInput
	Note string `json:"note"`
}

func (s *Server) progress(ctx context.Context, c Caller, in progressInput) (task.Task, error) {
	if err := in.mine(c); err != nil {
		return task.Task{}, err
	}
	return task.Progress(ctx, s.st, task.ProgressRequest{Task: in.Task, Owner: c.Owner, Token: in.Token, Lease: in.Lease, Note: in.Note})
}

type resetInput struct {
	Tasks   []string      `json:"tasks"`
	Status  []task.Status `json:"status"` // also every task with one of these
	Cascade bool          `json:"cascade"`
	Force   bool          `json:"force"`
	Reason  string        `json:"reason"`
	DryRun  bool          `json:"dryRun"`
}

func (s *Server) resetTasks(ctx context.Context, c Caller, in resetInput) (task.ChangeResult, error) {
	return task.ResetTasks(ctx, s.st, task.ResetRequest{
		Tasks: in.Tasks, Status: in.Status, By: c.Owner, Cascade: in.Cascade, Force: in.Force, Reason: in.Reason, ID: c.Request, DryRun: in.DryRun,
	})
}

type archiveInput struct {
	Tasks  []string `json:"tasks"`
	Closed bool     `json:"closed"` // instead of tasks: all that are closed and that nobody holds
	Force  bool     `json:"force"`
	DryRun bool     `json:"dryRun"`
}

func (s *Server) archiveTasks(ctx context.Context, c Caller, in archiveInput) (task.ChangeResult, error) {
	return task.Archive(ctx, s.st, task.RemoveRequest{Tasks: in.Tasks, Closed: in.Closed, Force: in.Force, By: c.Owner, DryRun: in.DryRun})
}
