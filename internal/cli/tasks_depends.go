package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/task"
)

func newTasksDependsCmd(a *App) *cobra.Command {
	var off []string
	var drawn bool
	cmd := &cobra.Command{
		Use:   "depends TASK [OTHER...]",
		Short: "A task must wait until others are done",
		Long: `Make a task wait until the others are completed or skipped; --remove ends that.
A circle is refused and named (exit 11). --tree draws what a task depends on,
however far.`,
		Example: `  tasklock tasks depends deploy build test
  tasklock tasks depends deploy --remove test
  tasklock tasks depends deploy --tree`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("needs a task, and what it depends on")
			}
			if drawn && (len(args) > 1 || cmd.Flags().Changed("remove")) {
				return usagef("--tree draws one task and changes nothing")
			}
			if len(args) == 1 && !drawn && !cmd.Flags().Changed("remove") {
				return usagef("needs what %s depends on, or --remove TASK", short(args[0], 60))
			}
			return nil
		},
		ValidArgsFunction: a.taskIDs(),
	}
	cmd.RunE = a.does(func(ctx context.Context, refs []string) error {
		if drawn {
			return a.drawTask(ctx, refs[0])
		}
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
	cmd.Flags().BoolVar(&drawn, "tree", false, "draw what it depends on")
	cmd.Flags().StringArrayVar(&off, "remove", nil, "it no longer depends on this task; repeat for more")
	_ = cmd.RegisterFlagCompletionFunc("remove", a.taskIDs())
	return cmd
}

// drawTask draws a task with what it depends on below it.
func (a *App) drawTask(ctx context.Context, ref string) error {
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	nodes, err := task.Graph(ctx, st, ref)
	if err != nil {
		return err
	}
	byID := map[string]task.Node{}
	for _, n := range nodes {
		byID[n.ID] = n
	}
	return a.answer(map[string]any{"tasks": nodes}, func(p *printer) {
		label := func(id string) string {
			n, ok := byID[id]
			if !ok {
				return id + " (archived or removed)"
			}
			return id + " " + short(n.Title, 80) + " (" + string(n.Status) + ")"
		}
		if !p.tree([]string{nodes[0].ID}, nil, label, func(id string) []string { return byID[id].DependsOn }) {
			a.note("The first %d lines; --json has all.", treeLines)
		}
	})
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
