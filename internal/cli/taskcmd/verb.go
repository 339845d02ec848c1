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
			return o.doNext(ctx, s, st, refs, func() { removeWorktrees(ctx, s, paths) })
		}
		out, err := o.do(ctx, s, st, refs)
		if err != nil {
			return err
		}
		removeWorktrees(ctx, s, paths)
		return changed(s, out, o.did, o.would)
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
func changed(s *session.Session, out task.ChangeResult, did, would string) error {
	return s.Answer(changedData{taskList(out.Tasks), out.Repeated}, func(p *term.Printer) { changedText(s, p, out, did, would) })
}

func changedText(s *session.Session, p *term.Printer, out task.ChangeResult, did, would string) {
	verb := p.Did(did, would)
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
