package taskcmd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// claimOptions are the flags of commands that claim tasks.
type claimOptions struct {
	hold.KeepOptions
	makes bool // --worktree makes one: see worktree.go
}

func newTasksClaimCmd(s *session.Session) *cobra.Command {
	o := &claimOptions{}
	cmd := &cobra.Command{
		Use:   "claim TASK...",
		Short: "Claim tasks, all or none; wait for them",
		Long: `Claim tasks: take their locks and the locks of their sections and set their status,
in one step, all of them or none. If another owner works on one, or in its section,
claim waits as acquire does.

The token belongs to this claim. Give it to complete, fail, unclaim or block: if the
claim has ended and another owner works on the task, they change nothing and exit
with 7.

--worktree makes a git worktree with its own branch after the claim, next to the
repository or at PATH; no two claims get the same one. If git refuses, the claim is
released. complete and unclaim --remove-worktree remove it, unless it has unsaved
work.

Exit codes:
  6  another owner works on a task or in its section
  11  a task waits for other tasks`,
		Example: `  tasklock tasks claim t1
  tasklock tasks claim t1 --worktree
  TOKEN=$(tasklock tasks claim "Fix bug" --json | jq .data.token)`,
		Args:              someTasks,
		ValidArgsFunction: taskIDs(s, task.Pending, task.Review),
		RunE:              s.Run(func(ctx context.Context, refs []string) error { return claimTasks(ctx, s, o, refs) }),
	}
	o.Flags(cmd)
	o.KeepAliveFlag(cmd)
	o.AttachFlag(cmd)
	o.worktreeFlag(cmd)
	return cmd
}

func claimTasks(ctx context.Context, s *session.Session, o *claimOptions, refs []string) error {
	refs, err := o.place(ctx, s, refs, 1)
	if err != nil {
		return err
	}
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	if o.Attached(s) {
		return o.holdTasks(ctx, s, st, refs)
	}
	out, err := o.claim(ctx, s, st, refs, append([]string{"claim"}, refs...))
	if err != nil {
		return err
	}
	made, err := o.work(ctx, s, st, out)
	if err != nil {
		return err
	}
	data := newClaimData(out)
	data.Worktree = made
	return s.Answer(data, func(p *term.Printer) {
		if len(out.Tasks) == 1 {
			printClaimedTask(s, p, out.Tasks[0], out.Grant, made)
			return
		}
		claimedText(out)(p)
		printWorktree(p, made)
	})
}

func printWorktree(p *term.Printer, made *madeWorktree) {
	if made != nil {
		p.Line("Worktree: %s (branch %s).", made.Path, made.Branch)
	}
}

func claimedText(out task.ClaimResult) func(*term.Printer) {
	return func(p *term.Printer) {
		eachTask(p, out.Tasks, true, func(t task.Task) { printClaimed(p, t, out.Grant) })
	}
}

// claimRequest is the lease of a claim by the flags of acquire.
func (o *claimOptions) claimRequest(ctx context.Context, s *session.Session) (lease.AcquireRequest, error) {
	if o.Attached(s) && o.RequestID != "" {
		return lease.AcquireRequest{}, session.Usagef("--request-id does not go with --attach: each is a claim of its own")
	}
	req, err := o.Request(ctx, s, nil, o.Attached(s))
	if err != nil {
		return req, err
	}
	if o.makes {
		req.Worktree = "" // it is noted when it is there
	}
	return req, o.Bind(s, &req)
}

// claim serves claim and update --status in_progress; again is the command
// line, after "tasks", that goes on waiting.
func (o *claimOptions) claim(ctx context.Context, s *session.Session, st *store.Store, refs, again []string) (task.ClaimResult, error) {
	req, err := o.claimRequest(ctx, s)
	if err != nil {
		return task.ClaimResult{}, err
	}
	titles := titlesOf(ctx, st, refs)
	var out task.ClaimResult
	err = hold.Take(ctx, s, req.Wait, titles.lockedText, func(ctx context.Context, waiting func(lease.HeldError)) (_ lease.Grant, err error) {
		req.Waiting = waiting
		out, err = task.ClaimTasks(ctx, st, task.ClaimRequest{Tasks: refs, Acquire: req})
		return out.Grant, err
	})
	if err != nil {
		return out, session.Tried(titles.explain(err), o.Again(ctx, s, "tasks", again, req))
	}
	o.Keep(s, out.Grant, req.Process)
	return out, nil
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

func printClaimed(p *term.Printer, t task.Task, g lease.Grant) {
	verb := p.Did("Claimed", "Would claim")
	if p.Dry {
		p.Line("%s %s as %s.", verb, taskName(t), g.Owner)
		return
	}
	p.Line("%s %s (token %d), %s.", verb, taskName(t), tokenOf(g, t.ID), view.Ends(p, g.ExpiresAt))
	var from []string
	for _, o := range g.TookOver {
		if o.Key == t.ID {
			from = append(from, term.Short(o.Owner, 60)+" ("+string(o.Why)+")")
		}
	}
	if len(from) > 0 {
		p.Line("Took over from %s.", strings.Join(from, ", "))
	}
}

// holdTasks is tasks claim --attach.
func (o *claimOptions) holdTasks(ctx context.Context, s *session.Session, st *store.Store, refs []string) error {
	req, err := o.claimRequest(ctx, s)
	if err != nil {
		return err
	}
	titles := titlesOf(ctx, st, refs)
	err = hold.Attach(ctx, s, req.Wait, titles.lockedText, func(ctx context.Context, waiting func(lease.HeldError)) (*hold.Taken, error) {
		req.Waiting = waiting
		tasks, lease, err := task.HoldTasks(ctx, st, task.ClaimRequest{Tasks: refs, Acquire: req})
		if err != nil {
			return nil, err
		}
		out := task.ClaimResult{Tasks: tasks, Grant: lease.Grant()}
		return &hold.Taken{Lease: lease, Data: newClaimData(out), Text: claimedText(out)}, nil
	})
	return session.Tried(titles.explain(err), o.Again(ctx, s, "tasks", append([]string{"claim"}, refs...), req))
}

// printClaimedTask prints a claim, and for a reader the work to do.
func printClaimedTask(s *session.Session, p *term.Printer, t task.Task, g lease.Grant, made *madeWorktree) {
	printClaimed(p, t, g)
	printWorktree(p, made)
	agent := s.Identity().Agent
	if agent && !s.DryRun {
		p.Line("When it is done: %s", s.CommandLine("tasks", "complete", t.ID, "--token", strconv.FormatInt(tokenOf(g, t.ID), 10), "--next"))
	}
	if agent || p.Wide {
		taskText(s, p, t)
	}
}

// taskText prints the text of a task: it is what the caller asked for, an order for
// its work.
func taskText(s *session.Session, p *term.Printer, t task.Task) {
	if t.Description == "" && taskName(t) == t.ID+` "`+t.Title+`"` {
		return // it is all in the line above
	}
	text, left := t.Text()
	p.Line("")
	p.Text(text)
	if left > 0 {
		p.Line("… and %d bytes more: %s", left, s.CommandLine("tasks", "show", t.ID))
	}
}

// titles are those of the tasks that a command is about, by id. They are read
// once, when somebody turns out to be in the way.
type titles func() map[string]string

func titlesOf(ctx context.Context, st *store.Store, refs []string) titles {
	return sync.OnceValue(func() map[string]string {
		found := map[string]string{}
		for _, ref := range refs {
			if i, err := task.Show(ctx, st, ref); err == nil {
				found[i.ID] = i.Title
			}
		}
		return found
	})
}

// lockedText names the blocking owner, with the title of the task.
func (t titles) lockedText(h *lease.HeldError) string {
	if title := t()[h.Key]; title != "" {
		return view.LockedAs(`Task "`+term.Short(title, 80)+`"`, h)
	}
	return view.LockedText(h)
}

// explain adds the title of the task to a refusal.
func (t titles) explain(err error) error {
	var held *lease.HeldError
	if errors.As(err, &held) {
		return &session.Attempt{Err: err, Message: t.lockedText(held)}
	}
	return err
}
