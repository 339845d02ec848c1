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
	f.StringVar(&o.summary, "summary", "", "what came of it")
	f.StringArrayVar(&o.commits, "commit", nil, "a commit that shows it; repeat for more")
	f.StringArrayVar(&o.tests, "test", nil, "a test that shows it; repeat for more")
}

func (o *verbOptions) result() *task.Result {
	if o.summary == "" && len(o.commits)+len(o.tests) == 0 {
		return nil
	}
	return &task.Result{Summary: o.summary, Commits: o.commits, Tests: o.tests}
}

// verbCmd makes a command of a verb.
func verbCmd(s *session.Session, v task.Verb, o *verbOptions, cmd *cobra.Command, did, would string, from ...task.Status) *cobra.Command {
	cmd.Args = someTasks
	cmd.ValidArgsFunction = taskIDs(s, from...)
	cmd.RunE = s.Run(func(ctx context.Context, refs []string) error {
		if err := o.then.alone(cmd); err != nil {
			return err
		}
		st, err := s.Store(ctx, false)
		if err != nil {
			return err
		}
		paths, err := o.emptied(ctx, s, st, refs)
		if err != nil {
			return err
		}
		if o.then.wanted() {
			return o.doNext(ctx, s, st, cmd, v, refs, func() { removeWorktrees(ctx, s, paths) })
		}
		out, err := o.do(ctx, s, st, cmd, v, refs)
		if err != nil {
			return err
		}
		removeWorktrees(ctx, s, paths)
		return changed(s, out, did, would)
	})
	o.flags(cmd)
	return cmd
}

// do carries out a verb on tasks, all of them or none.
func (o *verbOptions) do(ctx context.Context, s *session.Session, st *store.Store, cmd *cobra.Command, v task.Verb, refs []string) (task.DoResult, error) {
	r, err := o.request(ctx, s, st, cmd, v, refs)
	if err != nil {
		return task.DoResult{}, err
	}
	return task.Do(ctx, st, r)
}

func (o *verbOptions) request(ctx context.Context, s *session.Session, st *store.Store, cmd *cobra.Command, v task.Verb, refs []string) (r task.DoRequest, err error) {
	if err := o.fill(ctx, s, st, cmd, refs); err != nil {
		return r, err
	}
	id, err := s.Caller()
	return task.DoRequest{
		Verb: v, Tasks: refs, Owner: id.Owner, Token: o.token, Lease: o.lease, Reason: o.reason, Result: o.result(), DryRun: s.DryRun,
	}, err
}

// changedData is what a change of tasks answers.
type changedData struct {
	Tasks    []taskData `json:"tasks"`
	Repeated bool       `json:"repeated"` // it had been done before, with the same token
}

// changed prints what was done to tasks.
func changed(s *session.Session, out task.DoResult, did, would string) error {
	return s.Answer(changedData{taskList(out.Tasks), out.Repeated}, func(p *term.Printer) { changedText(s, p, out, did, would) })
}

func changedText(s *session.Session, p *term.Printer, out task.DoResult, did, would string) {
	verb := s.Did(did, would)
	after := ""
	if out.Repeated {
		after = " (it was already)"
	}
	for i, t := range out.Tasks {
		if i == session.AgentLimit && s.Identity().Agent {
			p.Line("… and %s more.", term.Plural(len(out.Tasks)-i, "task"))
			break
		}
		p.Line("%s %s%s.", verb, taskName(t), after)
	}
	if len(out.Tasks) == 0 {
		p.Line("Nothing to do.")
	}
}

func newTasksUnclaimCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{}
	cmd := &cobra.Command{
		Use:   "unclaim TASK...",
		Short: "Give tasks back: pending again, for others to take",
		Long: `Give tasks back that were claimed: they are pending again and free. Only who works
on a task may; with --token only while that claim is in force (else exit 7).`,
		Example: `  tasklock tasks unclaim t1 --token "$TOKEN" --reason "needs a Mac"`,
	}
	o.reasonFlag(cmd, "why, for the history")
	o.removeFlag(cmd)
	return verbCmd(s, task.Unclaim, o, cmd, "Unclaimed", "Would unclaim", task.InProgress)
}

func newTasksCompleteCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{}
	cmd := &cobra.Command{
		Use:   "complete TASK...",
		Short: "Tasks are done; what waited for them may go on",
		Long: `Say that tasks are done, and what came of it. Their locks are free afterwards, and
tasks that waited for them may go on. What another owner works on is refused
(exit 5). With --token only while that claim is in force: after a take-over it is
refused (exit 7) and changes nothing; repeated, it succeeds again.

--next claims the next task in the same commit, as next --claim would: both happen
or neither. If the completion is refused, nothing is claimed. If no task is ready,
the completion stands, the exit code is 0 and data.next in JSON is null. --quiet
prints the id of the claimed task alone, or nothing.`,
		Example: `  tasklock tasks complete t1 --token "$TOKEN" --summary "fixed" --commit 4f2a1c0 --test TestParse
  tasklock tasks complete t1 --next
  ID=$(tasklock next --claim -q); while [ "$ID" ]; do work-on "$ID"; ID=$(tasklock tasks complete "$ID" --next -q); done`,
	}
	o.nextFlags(cmd)
	o.reasonFlag(cmd, "why, for the history")
	o.resultFlags(cmd)
	o.removeFlag(cmd)
	return verbCmd(s, task.Complete, o, cmd, "Completed", "Would complete", task.InProgress, task.Pending, task.Review, task.Blocked)
}

func newTasksFailCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{}
	cmd := &cobra.Command{
		Use:   "fail TASK...",
		Short: "Tasks could not be done; what waits for them goes on waiting",
		Long: `Say that tasks could not be done, and why. Their locks are free afterwards; tasks
that wait for them go on waiting. reset makes them pending again. --token as in
complete.`,
		Example: `  tasklock tasks fail t1 --token "$TOKEN" --reason "the API is gone"`,
	}
	o.reasonFlag(cmd, "what went wrong")
	o.resultFlags(cmd)
	o.removeFlag(cmd)
	return verbCmd(s, task.Fail, o, cmd, "Failed", "Would fail", task.InProgress, task.Pending, task.Review)
}

func newTasksBlockCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{}
	cmd := &cobra.Command{
		Use:   "block TASK...",
		Short: "Tasks cannot go on until someone says unblock",
		Long: `Say that tasks cannot go on, and why. Their locks are free afterwards, but nobody
gets them from next until unblock. --token as in complete.`,
		Example: `  tasklock tasks block t1 --reason "waits for the licence"`,
	}
	o.reasonFlag(cmd, "what they wait for")
	return verbCmd(s, task.Block, o, cmd, "Blocked", "Would block", task.InProgress, task.Pending, task.Review)
}

func newTasksUnblockCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{}
	cmd := &cobra.Command{
		Use:     "unblock TASK...",
		Short:   "Blocked tasks may go on: pending again",
		Example: `  tasklock tasks unblock t1`,
	}
	o.reasonFlag(cmd, "why, for the history")
	return verbCmd(s, task.Unblock, o, cmd, "Unblocked", "Would unblock", task.Blocked)
}
