package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/task"
)

func newTasksArchiveCmd(s *session.Session) *cobra.Command {
	closed, force := false, false
	cmd := &cobra.Command{
		Use:   "archive [TASK...]",
		Short: "Archive closed tasks and free their locks",
		Long: `Take tasks that are completed, failed or skipped out of the list, and free their
locks. show and list --archived still find them; their ids are not given out again.

Exit codes:
  6  someone else holds a task; --closed leaves it out`,
		Example: `  tasklock tasks archive t1
  tasklock tasks archive --closed`,
		ValidArgsFunction: taskIDs(s, task.Completed, task.Failed, task.Skipped),
		RunE: s.Run(func(ctx context.Context, refs []string) error {
			if closed == (len(refs) > 0) {
				return session.Usagef("needs tasks or --closed, and not both")
			}
			id, st, err := s.Act(ctx, false)
			if err != nil {
				return err
			}
			r := task.RemoveRequest{Tasks: refs, Closed: closed, Force: force, By: id.Owner, DryRun: s.DryRun}
			var out task.ChangeResult
			for { // one commit has room for some hundred only
				some, err := task.Archive(ctx, st, r)
				if err != nil {
					return err
				}
				out.Tasks = append(out.Tasks, some.Tasks...)
				if !closed || s.DryRun || len(some.Tasks) == 0 {
					return changed(s, out, "Archived", "Would archive")
				}
			}
		}),
	}
	cmd.Flags().BoolVar(&closed, "closed", false, "all completed, failed and skipped tasks")
	cmd.Flags().BoolVar(&force, "force", false, "also tasks that someone else holds; break their locks")
	return cmd
}
