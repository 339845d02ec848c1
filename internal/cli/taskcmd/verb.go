package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
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
	Repeated bool       `json:"repeated"` // it had been done before, with the same token or request id
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

// nextFlags are those of complete --next: the claim that comes with it.
func (o *verbOptions) nextFlags(cmd *cobra.Command) {
	n := &nextOptions{}
	n.NoWait = true
	n.TTL = session.DurationFlag{Min: lease.MinTTL, Max: lease.MaxTTL, None: true}
	f := cmd.Flags()
	f.BoolVar(&n.claim, "next", false, "claim the next task in the same commit")
	f.StringVar(&n.section, "section", "", "with --next: only from this section")
	f.StringVar(&n.label, "label", "", "with --next: only with this label")
	f.Var(&n.TTL, "ttl", "with --next: expire after this long without a heartbeat")
	f.StringVar(&n.RequestID, "request-id", "", "with --next: repeat a request with this id: it has one effect")
	n.KeepAliveFlag(cmd)
	for _, name := range []string{"keep-alive", "ends-with"} {
		f.Lookup(name).Usage = "with --next: " + f.Lookup(name).Usage
	}
	o.then = n
}

func (o *nextOptions) wanted() bool { return o != nil && o.claim }

// alone refuses flags of the claim where there is none.
func (o *nextOptions) alone(cmd *cobra.Command) error {
	for _, name := range []string{"section", "label", "ttl", "request-id", "keep-alive", "ends-with"} {
		if o != nil && !o.claim && cmd.Flags().Changed(name) {
			return session.Usagef("--%s goes with --next", name)
		}
	}
	return nil
}

// completedData is what complete --next answers: next is null if no task is ready.
type completedData struct {
	changedData
	Next *nextData `json:"next"`
}

// doNext completes tasks and claims the next one, both or neither.
func (o *verbOptions) doNext(ctx context.Context, s *session.Session, st *store.Store, refs []string, after func()) error {
	d, err := o.request(ctx, s, st, refs)
	if err != nil {
		return err
	}
	n := o.then
	claim, err := n.claimRequest(ctx, s)
	if err != nil {
		return err
	}
	claim.Wait = 0
	out, next, err := task.ChangeAndNext(ctx, st, d, task.NextRequest{Section: n.section, Label: n.label, Acquire: claim})
	if err != nil {
		return err
	}
	after()
	data := completedData{changedData: changedData{taskList(out.Tasks), out.Repeated}}
	var claimed []string
	if next != nil {
		claimed = []string{next.Task.ID}
		n.Keep(s, *next.Grant, claim.Process)
		data.Next = &nextData{Task: newTaskData(next.Task), Token: tokenOf(*next.Grant, next.Task.ID), Grant: next.Grant}
	}
	return s.AnswerNames(data, claimed, func(p *term.Printer) {
		changedText(s, p, out, o.did, o.would)
		if next == nil {
			p.Line("No task is ready.")
			return
		}
		printClaimedTask(s, p, next.Task, *next.Grant, nil)
	})
}

func newTasksCompleteCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{verb: task.Complete, did: "Completed", would: "Would complete"}
	cmd := &cobra.Command{
		Use:   "complete TASK...",
		Short: "Complete tasks; tasks that wait for them can start",
		Long: `Complete tasks. Their locks are free afterwards, and tasks that waited for them can
start.

With --token it succeeds only while that claim is in force; repeated, it succeeds
again. --next claims the next task in the same commit, as next --claim would: both
happen or neither. If the completion is refused, nothing is claimed. If no task is
ready, the completion stands, the exit code is 0 and data.next in JSON is null.
--quiet prints only the id of the claimed task, or nothing.

Exit codes:
  5  another owner works on a task
  7  the claim was taken over; nothing changed`,
		Example: `  tasklock tasks complete t1 --token "$TOKEN" --summary "fixed" --commit 4f2a1c0 --test TestParse
  tasklock tasks complete t1 --next
  ID=$(tasklock next --claim -q); while [ "$ID" ]; do work-on "$ID"; ID=$(tasklock tasks complete "$ID" --next -q); done`,
	}
	o.nextFlags(cmd)
	o.reasonFlag(cmd, "the reason, for the history")
	o.resultFlags(cmd)
	o.removeFlag(cmd)
	return verbCmd(s, o, cmd, task.InProgress, task.Pending, task.Review, task.Blocked)
}
