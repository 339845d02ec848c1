package taskcmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func newTasksDependsCmd(s *session.Session) *cobra.Command {
	var off []string
	var drawn bool
	cmd := &cobra.Command{
		Use:   "depends TASK [OTHER...]",
		Short: "Make a task wait for other tasks",
		Long: `Make a task wait until the others are completed or skipped; --remove ends that.
--tree draws everything that a task depends on.

Exit codes:
  11  a cycle, which it names`,
		Example: `  tasklock tasks depends deploy build test
  tasklock tasks depends deploy --remove test
  tasklock tasks depends deploy --tree`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return session.Usagef("needs a task, and what it depends on")
			}
			if drawn && (len(args) > 1 || cmd.Flags().Changed("remove")) {
				return session.Usagef("--tree draws one task and changes nothing")
			}
			if len(args) == 1 && !drawn && !cmd.Flags().Changed("remove") {
				return session.Usagef("needs what %s depends on, or --remove TASK", term.Short(args[0], 60))
			}
			return nil
		},
		ValidArgsFunction: taskIDs(s),
	}
	cmd.RunE = s.RunStore(func(ctx context.Context, st *store.Store, refs []string) error {
		if drawn {
			return drawTask(ctx, s, st, refs[0])
		}
		id, err := s.Caller()
		if err != nil {
			return err
		}
		t, err := task.Depends(ctx, st, task.DependsRequest{Task: refs[0], On: refs[1:], Off: off, By: id.Owner, DryRun: s.DryRun})
		if err != nil {
			return err
		}
		return s.Answer(map[string]any{"task": newTaskData(t)}, func(p *term.Printer) {
			printDepends(p, taskName(t), t.DependsOn)
			if len(t.WaitsFor) > 0 && len(t.WaitsFor) < len(t.DependsOn) {
				p.Line("It waits for %s.", strings.Join(t.WaitsFor, ", "))
			}
		})
	})
	cmd.Flags().BoolVar(&drawn, "tree", false, "draw the dependencies")
	cmd.Flags().StringArrayVar(&off, "remove", nil, "do not wait for this task; repeat for more")
	_ = cmd.RegisterFlagCompletionFunc("remove", taskIDs(s))
	return cmd
}

// drawTask draws a task with what it depends on below it.
func drawTask(ctx context.Context, s *session.Session, st *store.Store, ref string) error {
	nodes, err := task.Graph(ctx, st, ref)
	if err != nil {
		return err
	}
	byID := map[string]task.Node{}
	for _, n := range nodes {
		byID[n.ID] = n
	}
	return s.Answer(map[string]any{"tasks": nodes}, func(p *term.Printer) {
		label := func(id string) string {
			n, ok := byID[id]
			if !ok {
				return id + " (archived or removed)"
			}
			return id + " " + term.Short(n.Title, 80) + " (" + string(n.Status) + ")"
		}
		if !p.Tree([]string{nodes[0].ID}, nil, label, func(id string) []string { return byID[id].DependsOn }) {
			s.Note("The first %d lines; --json has all.", term.TreeLines)
		}
	})
}

// printDepends says what a task or a section depends on now.
func printDepends(p *term.Printer, name string, on []string) {
	verb := "depends"
	if p.Dry {
		verb = "would depend"
	}
	if len(on) == 0 {
		p.Line("%s %s on nothing.", name, verb)
		return
	}
	p.Line("%s %s on %s.", name, verb, strings.Join(on, ", "))
}
