package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/task"
)

func newTasksDeleteCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "delete TASK...",
		Short: "Delete tasks for good, all or none",
		Long: `Delete tasks for good, all or none. To keep a record, archive them.

Exit codes:
  6  someone works on a task
  11  other tasks depend on it`,
		Example:           `  tasklock tasks delete t7 t8`,
		Args:              someTasks,
		ValidArgsFunction: taskIDs(s),
		RunE: s.Run(func(ctx context.Context, refs []string) error {
			id, st, err := s.Act(ctx, false)
			if err != nil {
				return err
			}
			out, err := task.Delete(ctx, st, task.RemoveRequest{Tasks: refs, By: id.Owner, DryRun: s.DryRun})
			if err != nil {
				return err
			}
			return changed(s, out, "Deleted", "Would delete")
		}),
	}
}
