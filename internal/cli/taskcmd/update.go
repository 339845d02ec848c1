package taskcmd

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

type tasksUpdateOptions struct {
	claimOptions // for --status in_progress; --reason serves all statuses
	verb         verbOptions
	text         descriptionFlags

	status, progress, title, section string
	alias, noAlias                   []string
	priority                         priorityFlag
	labels                           labelsFlag
}

func newTasksUpdateCmd(s *session.Session) *cobra.Command {
	o := &tasksUpdateOptions{}
	cmd := &cobra.Command{
		Use:   "update TASK...",
		Short: "Change the fields, the status or the progress of tasks",
		Long: `Change the fields of a task, its status, or its progress.

Fields: --title, --alias and --no-alias, --description, --section, --priority,
--label (which replaces all labels; '' removes them). While an owner works on the
task, only that owner may change them.

Status, for several tasks at once, all or none: --status runs the verb that leads
there. in_progress is claim, with its flags, and waits for the lock of another owner;
completed, failed and blocked are complete, fail and block; pending is unclaim,
unblock or reset; review and skipped have no verb.

Progress: --progress, by the owner that works on the task. It counts as a heartbeat.`,
		Example: `  tasklock tasks update "Fix bug" --status in_progress
  tasklock tasks update t1 --status review --token "$TOKEN" --summary "PR 12"
  tasklock tasks update t1 --progress "3 of 7 files"
  tasklock tasks update t1 --title "Fix the bug" --priority high --label api,urgent`,
		Args:              someTasks,
		ValidArgsFunction: taskIDs(s),
	}
	cmd.RunE = s.Run(func(ctx context.Context, refs []string) error { return o.run(ctx, s, cmd, refs) })
	o.claimOptions.Flags(cmd)
	o.verb.flags(cmd)
	o.verb.resultFlags(cmd)
	o.text.flags(cmd)
	f := cmd.Flags()
	o.KeepAliveFlag(cmd)
	f.StringVar(&o.status, "status", "", "pending, in_progress, review, completed, failed, blocked or skipped")
	f.StringVar(&o.progress, "progress", "", "the progress of the work")
	f.StringVar(&o.title, "title", "", "the new title")
	f.StringArrayVar(&o.alias, "alias", nil, "another name; repeat for more")
	f.StringArrayVar(&o.noAlias, "no-alias", nil, "remove this alias; repeat for more")
	f.StringVar(&o.section, "section", "", "the new section; '' for none")
	f.Var(&o.priority, "priority", "high, medium, low, or a number from 1 (first) to 999")
	f.Var(&o.labels, "label", "labels, separated by commas")
	return completeFlags(s, cmd)
}

func (o *tasksUpdateOptions) run(ctx context.Context, s *session.Session, cmd *cobra.Command, refs []string) error {
	given := func(names ...string) []string {
		return slices.DeleteFunc(names, func(n string) bool { return !cmd.Flags().Changed(n) })
	}
	what := given("status", "progress")
	if words := given("title", "alias", "no-alias", "description", "description-file", "section", "priority", "label"); len(words) > 0 {
		what = append(what, words[0])
	}
	switch {
	case len(what) == 0:
		return session.Usagef("needs --status, --progress, or something to change: --title, --alias, --description, --section, --priority, --label")
	case len(what) > 1:
		return session.Usagef("--%s and --%s are two changes: make them one after the other", what[0], what[1])
	case what[0] == "status":
		return o.setStatus(ctx, s, refs)
	case len(refs) > 1:
		return session.Usagef("--%s takes one task, got %d; a title with spaces needs quotes", what[0], len(refs))
	case what[0] == "progress":
		return o.setProgress(ctx, s, refs[0])
	}
	return o.edit(ctx, s, cmd, refs[0])
}

func (o *tasksUpdateOptions) setStatus(ctx context.Context, s *session.Session, refs []string) error {
	status, err := parseStatus(o.status)
	if err != nil {
		return err
	}
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	if status == task.InProgress {
		return o.begin(ctx, s, st, refs)
	}
	o.verb.reason = o.Reason
	out, err := o.carryOut(ctx, s, st, status, refs)
	if err != nil {
		return err
	}
	return s.Answer(changedData{taskList(out.Tasks), out.Repeated}, func(p *term.Printer) {
		for _, t := range out.Tasks {
			printStatus(p, t)
		}
	})
}

// begin is the claim of --status in_progress.
func (o *tasksUpdateOptions) begin(ctx context.Context, s *session.Session, st *store.Store, refs []string) error {
	again := append(append([]string{"update"}, refs...), "--status", string(task.InProgress))
	out, err := o.claim(ctx, s, st, refs, again)
	if err != nil {
		return err
	}
	return s.Answer(newClaimData(out), func(p *term.Printer) {
		for _, t := range out.Tasks {
			printStatus(p, t)
			if !s.DryRun {
				p.Line("Token %d, %s.", tokenOf(out.Grant, t.ID), view.Ends(p, out.Grant.ExpiresAt))
			}
		}
	})
}

func printStatus(p *term.Printer, t task.Task) {
	would := ""
	if p.Dry {
		would = "would be "
	}
	p.Line(`Task "%s" status %supdated to %s.`, term.Short(t.Title, 120), would, string(t.Status))
}

func (o *tasksUpdateOptions) carryOut(ctx context.Context, s *session.Session, st *store.Store, status task.Status, refs []string) (task.ChangeResult, error) {
	verb, _ := task.VerbTo(status)
	if status == task.Pending {
		var err error
		if verb, err = verbBack(ctx, st, refs); err != nil {
			return task.ChangeResult{}, err
		}
	}
	if verb == task.Reset {
		id, err := s.Caller()
		if err != nil {
			return task.ChangeResult{}, err
		}
		return task.ResetTasks(ctx, st, task.ResetRequest{Tasks: refs, By: id.Owner, Reason: o.Reason, DryRun: s.DryRun})
	}
	o.verb.verb = verb
	return o.verb.do(ctx, s, st, refs)
}

// verbBack is what leads tasks back to pending. Should one of them change
// meanwhile, the verb refuses.
func verbBack(ctx context.Context, st *store.Store, refs []string) (task.Verb, error) {
	from := map[task.Status]bool{}
	for _, ref := range refs {
		i, err := task.Show(ctx, st, ref)
		if err != nil {
			return "", err
		}
		from[i.Status] = true
	}
	switch {
	case len(from) == 1 && from[task.InProgress]:
		return task.Unclaim, nil
	case len(from) == 1 && from[task.Blocked]:
		return task.Unblock, nil
	}
	return task.Reset, nil
}

func (o *tasksUpdateOptions) setProgress(ctx context.Context, s *session.Session, ref string) error {
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	if err := o.verb.fill(ctx, s, st, []string{ref}); err != nil {
		return err
	}
	id, err := s.Caller()
	if err != nil {
		return err
	}
	t, err := task.Progress(ctx, st, task.ProgressRequest{Task: ref, Owner: id.Owner, Token: o.verb.token, Lease: o.verb.lease, Note: o.progress, DryRun: s.DryRun})
	return changed(s, "Noted progress of", "Would note progress of")(task.ChangeResult{Tasks: []task.Task{t}}, err)
}

func (o *tasksUpdateOptions) edit(ctx context.Context, s *session.Session, cmd *cobra.Command, ref string) error {
	r := task.EditRequest{Task: ref, Alias: o.alias, NoAlias: o.noAlias, DryRun: s.DryRun}
	if cmd.Flags().Changed("title") {
		r.Title = &o.title
	}
	if cmd.Flags().Changed("section") {
		r.Section = &o.section
	}
	if o.priority.given {
		r.Priority = &o.priority.value
	}
	if o.labels.given {
		labels := slices.Clone(o.labels.list)
		r.Labels = &labels
	}
	text, given, err := o.text.read(s, cmd)
	if err != nil {
		return err
	}
	if given {
		text = strings.TrimRight(text, "\n")
		r.Description = &text
	}
	id, st, err := s.Act(ctx, false)
	if err != nil {
		return err
	}
	r.Owner = id.Owner
	t, err := task.Edit(ctx, st, r)
	return changed(s, "Updated", "Would update")(task.ChangeResult{Tasks: []task.Task{t}}, err)
}
