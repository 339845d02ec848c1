package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func newTasksClaimCmd(a *App) *cobra.Command {
	o := &acquireOptions{}
	cmd := &cobra.Command{
		Use:   "claim TASK...",
		Short: "Take tasks to work on, all or none; wait for them if need be",
		Long: `Take tasks to work on: their locks, the locks of their sections and their status
in one step, all of them or none. If another owner works on one, or in its
section, claim waits as acquire does; what waits for other tasks is refused at
once (exit 11).

The token belongs to this claim. Give it to complete, fail, unclaim or block: if
the claim has ended meanwhile and someone else works on the task, they are
refused with exit 7 and change nothing.

--worktree makes a git worktree with a branch of its own once the claim is taken,
beside the repository or at the given path; no two claims get the same one. If
git refuses, the claim is given back. complete and unclaim --remove-worktree take
it away again, and never anything that is not saved.`,
		Example: `  tasklock tasks claim t1
  tasklock tasks claim t1 --worktree
  TOKEN=$(tasklock tasks claim "Fix bug" --json | jq .data.token)`,
		Args:              someTasks,
		ValidArgsFunction: a.taskIDs(task.Pending, task.Review),
		RunE:              a.does(func(ctx context.Context, refs []string) error { return claimTasks(ctx, a, o, refs) }),
	}
	o.flags(cmd)
	o.keepAliveFlag(cmd)
	o.attachFlag(cmd)
	o.worktreeFlag(cmd)
	return cmd
}

func claimTasks(ctx context.Context, a *App, o *acquireOptions, refs []string) error {
	refs, err := o.place(ctx, a, refs, 1)
	if err != nil {
		return err
	}
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	if o.attached(a) {
		return o.holdTasks(ctx, a, st, refs)
	}
	out, err := o.claim(ctx, a, st, refs, append([]string{"claim"}, refs...))
	if err != nil {
		return err
	}
	made, err := o.work(ctx, a, st, out)
	if err != nil {
		return err
	}
	data := newClaimData(out)
	data.Worktree = made
	return a.answer(data, func(p *printer) {
		if len(out.Tasks) == 1 {
			a.claimedTask(p, out.Tasks[0], out.Grant, made)
			return
		}
		a.claimedText(out)(p)
		p.worktree(made)
	})
}

func (p *printer) worktree(made *madeWorktree) {
	if made != nil {
		p.line("Worktree: %s (branch %s).", made.Path, made.Branch)
	}
}

func (a *App) claimedText(out task.ClaimResult) func(*printer) {
	return func(p *printer) {
		verb := a.did("Claimed", "Would claim")
		for i, t := range out.Tasks {
			if i == agentLimit {
				p.line("… and %s more.", plural(len(out.Tasks)-i, "task"))
				break
			}
			p.claimed(verb, t, out.Grant, a.DryRun)
		}
	}
}

// claimRequest is the lease of a claim by the flags of acquire.
func (o *acquireOptions) claimRequest(a *App) (lease.AcquireRequest, error) {
	if o.attached(a) && o.requestID != "" {
		return lease.AcquireRequest{}, usagef("--request-id does not go with --attach: each is a claim of its own")
	}
	req, err := o.request(a, nil, o.attached(a))
	if err != nil {
		return req, err
	}
	if o.makes {
		req.Worktree = "" // it is noted when it is there
	}
	return req, o.bind(a, &req)
}

// claim serves claim and update --status in_progress; again is the command
// line, after "tasks", that goes on waiting.
func (o *acquireOptions) claim(ctx context.Context, a *App, st *store.Store, refs, again []string) (task.ClaimResult, error) {
	req, err := o.claimRequest(a)
	if err != nil {
		return task.ClaimResult{}, err
	}
	a.retry = o.again(a, "tasks", again, req)
	ctx, signals := newListener(ctx)
	defer signals.stop()
	w := a.waiting(req.Wait)
	req.Waiting = func(h lease.HeldError) {
		signals.listen()
		a.learnTitles(ctx, st, refs)
		w.update(h)
	}
	out, err := task.ClaimTasks(ctx, st, task.ClaimRequest{Tasks: refs, Acquire: req})
	w.end(err == nil, len(out.Grant.TookOver) > 0)
	var held *lease.HeldError
	if errors.As(err, &held) {
		a.learnTitles(ctx, st, refs)
	}
	if err == nil {
		o.keep(a, out.Grant, req.Process)
	}
	return out, interrupted(ctx, err)
}

// claimData is a grant with the tasks that it is for.
type claimData struct {
	lease.Grant
	Token int64         `json:"token"` // of the task, if it is one
	Tasks []claimedTask `json:"tasks"`

	Worktree *madeWorktree `json:"worktree,omitempty"`
}

type claimedTask struct {
	taskData
	Token int64 `json:"token"`
}

func newClaimData(c task.ClaimResult) claimData {
	d := claimData{Grant: c.Grant, Token: c.Grant.Token, Tasks: []claimedTask{}}
	for _, t := range c.Tasks {
		d.Tasks = append(d.Tasks, claimedTask{newTaskData(t), tokenOf(c.Grant, t.ID)})
	}
	if len(d.Tasks) == 1 {
		d.Token = d.Tasks[0].Token
	}
	return d
}

// tokenOf is the token of one key of a grant.
func tokenOf(g lease.Grant, key string) int64 {
	if i := slices.IndexFunc(g.Keys, func(k lease.KeyGrant) bool { return k.Key == key }); i >= 0 {
		return g.Keys[i].Token
	}
	return g.Token
}

func (p *printer) claimed(verb styled, t task.Task, g lease.Grant, dry bool) {
	if dry {
		p.line("%s %s as %s.", verb, taskName(t), g.Owner)
		return
	}
	p.line("%s %s (token %d), %s.", verb, taskName(t), tokenOf(g, t.ID), p.ends(g.ExpiresAt))
	var from []string
	for _, o := range g.TookOver {
		if o.Key == t.ID {
			from = append(from, short(o.Owner, 60)+" ("+string(o.Why)+")")
		}
	}
	if len(from) > 0 {
		p.line("Took over from %s.", strings.Join(from, ", "))
	}
}
