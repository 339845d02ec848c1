package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/task"
)

func newTasksDependsCmd(a *App) *cobra.Command {
	var off []string
	cmd := &cobra.Command{
		Use:   "depends TASK [OTHER...]",
		Short: "A task must wait until others are done",
		Long: `Make a task wait until the others are completed or skipped; --remove ends that.
A circle is refused and named (exit 11).`,
		Example: `  tasklock tasks depends deploy build test
  tasklock tasks depends deploy --remove test`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("needs a task, and what it depends on")
			}
			if len(args) == 1 && !cmd.Flags().Changed("remove") {
				return usagef("needs what %s depends on, or --remove TASK", short(args[0], 60))
			}
			return nil
		},
		ValidArgsFunction: a.taskIDs(),
	}
	cmd.RunE = a.does(func(ctx context.Context, refs []string) error {
		id, err := a.caller()
		if err != nil {
			return err
		}
		st, err := a.Store(ctx, false)
		if err != nil {
			return err
		}
		t, err := task.Depends(ctx, st, task.DependsRequest{Task: refs[0], On: refs[1:], Off: off, By: id.Owner, DryRun: a.DryRun})
		if err != nil {
			return err
		}
		return a.answer(map[string]any{"task": newTaskData(t)}, func(p *printer) {
			p.depends(taskName(t), t.DependsOn, a.DryRun)
			if len(t.WaitsFor) > 0 && len(t.WaitsFor) < len(t.DependsOn) {
				p.line("It waits for %s.", strings.Join(t.WaitsFor, ", "))
			}
		})
	})
	cmd.Flags().StringArrayVar(&off, "remove", nil, "it no longer depends on this task; repeat for more")
	_ = cmd.RegisterFlagCompletionFunc("remove", a.taskIDs())
	return cmd
}

// depends says what a task or a section depends on now.
func (p *printer) depends(name string, on []string, dry bool) {
	verb := "depends"
	if dry {
		verb = "would depend"
	}
	if len(on) == 0 {
		p.line("%s %s on nothing.", name, verb)
		return
	}
	p.line("%s %s on %s.", name, verb, strings.Join(on, ", "))
}
