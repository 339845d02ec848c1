package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/task"
)

type tasksAddOptions struct {
	id, parent, section string
	requestID           string
	aliases             []string
	priority            priorityFlag
	dependsOn           []string
	labels              labelsFlag
	text                descriptionFlags
}

func newTasksAddCmd(s *session.Session) *cobra.Command {
	o := &tasksAddOptions{}
	cmd := &cobra.Command{
		Use:   "add TITLE...",
		Short: "Add tasks, all or none",
		Long: `Add one task for each title, all of them or none.

They get the next ids, t1, t2, …, which are never given out again; --parent t16 makes
t16_1, t16_2, …; --id sets an id. A section that does not exist is added. --quiet
prints only the ids. A task's id, number, title and each --alias name the same lock.`,
		Example: `  tasklock tasks add "Fix bug" --section Backend --priority high --label api
  tasklock tasks add "Write tests" --depends-on "Fix bug"
  tasklock tasks add "Parser" "Printer" "Docs" --section Core`,
		Args:              session.AtLeastOne("title"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = s.Run(func(ctx context.Context, titles []string) error { return o.run(ctx, s, cmd, titles) })
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "the id of the task")
	f.StringArrayVar(&o.aliases, "alias", nil, "another name for the task; repeat for more")
	f.StringVar(&o.parent, "parent", "", "make it a child of this task")
	f.StringVar(&o.section, "section", "", "the section it belongs to")
	f.Var(&o.priority, "priority", "high, medium, low, or a number from 1 (first) to 999")
	f.StringArrayVar(&o.dependsOn, "depends-on", nil, "wait for this task; repeat for more")
	f.Var(&o.labels, "label", "labels, separated by commas")
	o.text.flags(cmd)
	requestIDFlag(cmd, &o.requestID)
	cmd.MarkFlagsMutuallyExclusive("id", "parent")
	return completeFlags(s, cmd)
}

func (o *tasksAddOptions) run(ctx context.Context, s *session.Session, cmd *cobra.Command, titles []string) error {
	switch {
	case o.id != "" && len(titles) > 1:
		return session.Usagef("--id goes with one title")
	case len(o.aliases) > 0 && len(titles) > 1:
		return session.Usagef("--alias goes with one title")
	}
	if cmd.Flags().Changed("id") && o.id == "" {
		return session.Usagef("--id: must not be empty")
	}
	description, _, err := o.text.read(s, cmd)
	if err != nil {
		return err
	}
	id, st, err := s.Act(ctx, true)
	if err != nil {
		return err
	}
	r := task.AddRequest{By: id.Owner, ID: o.requestID, DryRun: s.DryRun}
	for _, title := range titles {
		r.Tasks = append(r.Tasks, task.New{
			ID: o.id, Parent: o.parent, Title: title, Aliases: o.aliases, Description: description, Section: o.section,
			Priority: o.priority.value, DependsOn: o.dependsOn, Labels: o.labels.list,
		})
	}
	return added(s)(task.Add(ctx, st, r))
}

// addData is what add and import answer.
type addData struct {
	Tasks    []taskData `json:"tasks"`
	Sections []string   `json:"sections"` // made for them
	Repeated bool       `json:"repeated"` // the same request added them before
}

func added(s *session.Session) func(task.AddResult, error) error {
	return func(out task.AddResult, err error) error {
		if err != nil {
			return err
		}
		data := addData{Tasks: taskList(out.Tasks), Sections: append([]string{}, out.Sections...), Repeated: out.Repeated}
		return s.AnswerNames(data, term.Each(out.Tasks, taskID), func(p *term.Printer) {
			verb, after := p.Did("Added", "Would add"), ""
			if out.Repeated {
				after = " (it was already)"
			}
			eachTask(p, out.Tasks, s.Identity().Agent, func(t task.Task) { p.Line("%s %s%s.", verb, taskName(t), after) })
			for _, text := range out.Sections {
				p.Line("%s section %s%s.", verb, text, after)
			}
		})
	}
}
