package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/task"
)

type tasksAddOptions struct {
	id, parent, section string
	aliases             []string
	priority            priorityFlag
	dependsOn           []string
	labels              labelsFlag
	text                descriptionFlags
}

func newTasksAddCmd(a *App) *cobra.Command {
	o := &tasksAddOptions{}
	cmd := &cobra.Command{
		Use:   "add TITLE...",
		Short: "Put tasks on the list, all or none",
		Long: `Put one task on the list for each title, all of them or none. They get the next
ids, t1, t2, …, which are never given out again; --parent t16 makes t16_1, t16_2,
…; --id takes a name of your own. A section that is named for the first time is
made. --quiet prints the ids alone.

A task can be locked by its id, its number, its title and each --alias: all of
them mean the same lock.`,
		Example: `  tasklock tasks add "Fix bug" --section Backend --priority high --label api
  tasklock tasks add "Write tests" --depends-on "Fix bug"
  tasklock tasks add "Parser" "Printer" "Docs" --section Core`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("needs a title")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = a.does(func(ctx context.Context, titles []string) error { return o.run(ctx, a, cmd, titles) })
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "a name of your own for the task")
	f.StringArrayVar(&o.aliases, "alias", nil, "a further name for the task; repeat for more")
	f.StringVar(&o.parent, "parent", "", "number it below this task")
	f.StringVar(&o.section, "section", "", "the section it belongs to")
	f.Var(&o.priority, "priority", "high, medium, low, or a number from 1 (first) to 999")
	f.StringArrayVar(&o.dependsOn, "depends-on", nil, "a task that must be done before; repeat for more")
	f.Var(&o.labels, "label", "labels, separated by commas")
	o.text.flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("id", "parent")
	return a.completeFlags(cmd)
}

func (o *tasksAddOptions) run(ctx context.Context, a *App, cmd *cobra.Command, titles []string) error {
	switch {
	case o.id != "" && len(titles) > 1:
		return usagef("--id goes with one title")
	case len(o.aliases) > 0 && len(titles) > 1:
		return usagef("--alias goes with one title")
	}
	if cmd.Flags().Changed("id") && o.id == "" {
		return usagef("--id: must not be empty")
	}
	description, _, err := o.text.read(a, cmd)
	if err != nil {
		return err
	}
	id, err := a.caller()
	if err != nil {
		return err
	}
	r := task.AddRequest{By: id.Owner, DryRun: a.DryRun}
	for _, title := range titles {
		r.Tasks = append(r.Tasks, task.New{
			ID: o.id, Parent: o.parent, Title: title, Aliases: o.aliases, Description: description, Section: o.section,
			Priority: o.priority.value, DependsOn: o.dependsOn, Labels: o.labels.list,
		})
	}
	st, err := a.Store(ctx, true)
	if err != nil {
		return err
	}
	out, err := task.Add(ctx, st, r)
	if err != nil {
		return err
	}
	return a.added(out)
}

// addData is what add and import answer.
type addData struct {
	Tasks    []taskData `json:"tasks"`
	Sections []string   `json:"sections"` // made for them
}

func (a *App) added(out task.AddResult) error {
	if a.Quiet && !a.JSON {
		p := a.printer()
		for _, t := range out.Tasks {
			p.line("%s", t.ID)
		}
		return p.flush()
	}
	data := addData{Tasks: taskList(out.Tasks), Sections: append([]string{}, out.Sections...)}
	return a.answer(data, func(p *printer) {
		verb := a.did("Added", "Would add")
		for i, t := range out.Tasks {
			if i == agentLimit && a.Identity().Agent {
				p.line("… and %s more.", plural(len(out.Tasks)-i, "task"))
				break
			}
			p.line("%s %s.", verb, taskName(t))
		}
		for _, s := range out.Sections {
			p.line("%s section %s.", verb, s)
		}
	})
}

// did is the verb of a change, or of what would be one.
func (a *App) did(did, would string) styled {
	if a.DryRun {
		return yellow.of(would)
	}
	return green.of(did)
}

// descriptionFlags take a long text from the line or from a file.
type descriptionFlags struct{ text, file string }

func (o *descriptionFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.text, "description", "", "what is to be done")
	cmd.Flags().StringVar(&o.file, "description-file", "", "the same from a `FILE`; - is stdin")
	cmd.MarkFlagsMutuallyExclusive("description", "description-file")
}

func (o *descriptionFlags) read(a *App, cmd *cobra.Command) (text string, given bool, err error) {
	if !cmd.Flags().Changed("description-file") {
		return o.text, cmd.Flags().Changed("description"), nil
	}
	data, err := a.readFile(o.file, task.MaxDescription)
	return string(data), true, err
}

// readFile reads a file that the caller named, or stdin, and a little more
// than most, so that what checks the size can refuse it.
func (a *App) readFile(name string, most int64) ([]byte, error) {
	in := a.Stdin
	if _, err := a.Config(); err != nil { // another program may have to go on, and read it
		return nil, err
	}
	if name != "-" {
		if !filepath.IsAbs(name) {
			name = filepath.Join(a.Dir, name)
		}
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("%v", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, usagef("%v", err)
	}
	return data, nil
}
