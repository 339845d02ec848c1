package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// verbOptions are the flags of commands that end a claim.
type verbOptions struct {
	tokenFlag
	verb            task.Verb
	did, would      string // what it says, and with --dry-run
	reason, summary string
	commits, tests  []string
	removeTree      bool
	then            *nextOptions // complete: the claim of --next; else nil
}

func (o *verbOptions) reasonFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&o.reason, "reason", "", usage)
}

func (o *verbOptions) resultFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.summary, "summary", "", "the result")
	f.StringArrayVar(&o.commits, "commit", nil, "a commit with the result; repeat for more")
	f.StringArrayVar(&o.tests, "test", nil, "a test of the result; repeat for more")
}

func (o *verbOptions) result() *task.Result {
	if o.summary == "" && len(o.commits)+len(o.tests) == 0 {
		return nil
	}
	return &task.Result{Summary: o.summary, Commits: o.commits, Tests: o.tests}
}

// verbCmd makes a command of a verb.
func verbCmd(s *session.Session, o *verbOptions, cmd *cobra.Command, from ...task.Status) *cobra.Command {
	cmd.Args = someTasks
	cmd.ValidArgsFunction = taskIDs(s, from...)
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.then.alone(cmd) }
	cmd.RunE = s.RunStore(func(ctx context.Context, st *store.Store, refs []string) error {
		paths, err := o.emptied(ctx, s, st, refs)
		if err != nil {
			return err
		}
		if o.then.wanted() {
			return o.doNext(ctx, s, st, refs, func() { removeWorktrees(ctx, s, paths) })
		}
		out, err := o.do(ctx, s, st, refs)
		if err == nil {
			removeWorktrees(ctx, s, paths)
		}
		return changed(s, o.did, o.would)(out, err)
	})
	o.flags(cmd)
	return cmd
}

// do carries out a verb on tasks, all of them or none.
func (o *verbOptions) do(ctx context.Context, s *session.Session, st *store.Store, refs []string) (task.ChangeResult, error) {
	r, err := o.request(ctx, s, st, refs)
	if err != nil {
		return task.ChangeResult{}, err
	}
	return task.ChangeStatus(ctx, st, r)
}

func (o *verbOptions) request(ctx context.Context, s *session.Session, st *store.Store, refs []string) (r task.StatusRequest, err error) {
	if err := o.fill(ctx, s, st, refs); err != nil {
		return r, err
	}
	id, err := s.Caller()
	return task.StatusRequest{
		Verb: o.verb, Tasks: refs, Owner: id.Owner, Token: o.token, Lease: o.lease, Reason: o.reason, Result: o.result(), DryRun: s.DryRun,
	}, err
}

// changedData is what a change of tasks answers.
type changedData struct {
	Tasks    []taskData `json:"tasks"`
	Repeated bool       `json:"repeated"` // it had been done before, with the same token
}

// changed prints what was done to tasks.
func changed(s *session.Session, did, would string) func(task.ChangeResult, error) error {
	return func(out task.ChangeResult, err error) error {
		if err != nil {
			return err
		}
		return s.Answer(changedData{taskList(out.Tasks), out.Repeated}, func(p *term.Printer) { changedText(s, p, out, did, would) })
	}
}

func changedText(s *session.Session, p *term.Printer, out task.ChangeResult, did, would string) {
	verb := p.Did(did, would)
	after := ""
	if out.Repeated {
		after = " (it was already)"
	}
	eachTask(p, out.Tasks, s.Identity().Agent, func(t task.Task) { p.Line("%s %s%s.", verb, taskName(t), after) })
	if len(out.Tasks) == 0 {
		p.Line("Nothing to do.")
	}
}

func newTasksUnclaimCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{verb: task.Unclaim, did: "Unclaimed", would: "Would unclaim"}
	cmd := &cobra.Command{
		Use:   "unclaim TASK...",
		Short: "Release claimed tasks: pending again",
		Long: `Release claimed tasks: they are pending again and free. Only the owner of the claim
may do it.

Exit codes:
  7  --token is not that of the present claim`,
		Example: `  tasklock tasks unclaim t1 --token "$TOKEN" --reason "needs a Mac"`,
	}
	o.reasonFlag(cmd, "the reason, for the history")
	o.removeFlag(cmd)
	return verbCmd(s, o, cmd, task.InProgress)
}

func newTasksFailCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{verb: task.Fail, did: "Failed", would: "Would fail"}
	cmd := &cobra.Command{
		Use:   "fail TASK...",
		Short: "Mark tasks as failed; tasks that wait for them go on waiting",
		Long: `Mark tasks as failed, with a reason. Their locks are free afterwards; tasks that wait
for them go on waiting. reset makes them pending again. --token works as in complete.`,
		Example: `  tasklock tasks fail t1 --token "$TOKEN" --reason "the API is gone"`,
	}
	o.reasonFlag(cmd, "what went wrong")
	o.resultFlags(cmd)
	o.removeFlag(cmd)
	return verbCmd(s, o, cmd, task.InProgress, task.Pending, task.Review)
}

func newTasksBlockCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{verb: task.Block, did: "Blocked", would: "Would block"}
	cmd := &cobra.Command{
		Use:   "block TASK...",
		Short: "Block tasks until unblock",
		Long: `Block tasks, with a reason. Their locks are free afterwards, but next does not offer
them until unblock. --token works as in complete.`,
		Example: `  tasklock tasks block t1 --reason "waits for the licence"`,
	}
	o.reasonFlag(cmd, "what they wait for")
	return verbCmd(s, o, cmd, task.InProgress, task.Pending, task.Review)
}

func newTasksUnblockCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{verb: task.Unblock, did: "Unblocked", would: "Would unblock"}
	cmd := &cobra.Command{
		Use:     "unblock TASK...",
		Short:   "Make blocked tasks pending again",
		Example: `  tasklock tasks unblock t1`,
	}
	o.reasonFlag(cmd, "the reason, for the history")
	return verbCmd(s, o, cmd, task.Blocked)
}
