package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/store"
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
		Args: func(_ *cobra.Command, refs []string) error {
			if closed == (len(refs) > 0) {
				return session.Usagef("needs tasks or --closed, and not both")
			}
			return nil
		},
		RunE: s.RunAs(func(ctx context.Context, st *store.Store, by string, refs []string) error {
			r := task.RemoveRequest{Tasks: refs, Closed: closed, Force: force, By: by, DryRun: s.DryRun}
			var out task.ChangeResult
			for { // one commit has room for some hundred only
				some, err := task.Archive(ctx, st, r)
				out.Tasks = append(out.Tasks, some.Tasks...)
				if err != nil || !closed || s.DryRun || len(some.Tasks) == 0 {
					return changed(s, "Archived", "Would archive")(out, err)
				}
			}
		}),
	}
	cmd.Flags().BoolVar(&closed, "closed", false, "all completed, failed and skipped tasks")
	cmd.Flags().BoolVar(&force, "force", false, "also tasks that someone else holds; break their locks")
	return cmd
}

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
		RunE: s.RunAs(func(ctx context.Context, st *store.Store, by string, refs []string) error {
			return changed(s, "Deleted", "Would delete")(task.Delete(ctx, st, task.RemoveRequest{Tasks: refs, By: by, DryRun: s.DryRun}))
		}),
	}
}

func newTasksResetCmd(s *session.Session) *cobra.Command {
	var r task.ResetRequest
	var failed, blocked, all bool
	cmd := &cobra.Command{
		Use:   "reset [TASK...]",
		Short: "Make tasks pending again",
		Long: `Make tasks pending again, whatever their status, all of them in one step. --cascade
also resets everything that depends on them, at most 1,000 tasks. --failed and
--blocked mean every such task, --all both.

--force also resets tasks that someone works on: it breaks their locks, and the store
refuses what they report with their tokens.

Exit codes:
  6  someone works on a task; it names the holders`,
		Example: `  tasklock tasks reset t1
  tasklock tasks reset --failed
  tasklock tasks reset t1 --cascade --dry-run
  tasklock tasks reset t1 --cascade --force --reason "the schema changed"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if failed || blocked || all {
				return nil
			}
			return someTasks(cmd, args)
		},
		ValidArgsFunction: taskIDs(s),
		RunE: s.RunAs(func(ctx context.Context, st *store.Store, by string, refs []string) error {
			r.Tasks, r.By, r.DryRun, r.Status = refs, by, s.DryRun, nil
			if failed || all {
				r.Status = append(r.Status, task.Failed)
			}
			if blocked || all {
				r.Status = append(r.Status, task.Blocked)
			}
			return changed(s, "Reset", "Would reset")(task.ResetTasks(ctx, st, r))
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&failed, "failed", false, "all failed tasks")
	f.BoolVar(&blocked, "blocked", false, "all blocked tasks")
	f.BoolVar(&all, "all", false, "all failed and blocked tasks")
	f.BoolVar(&r.Cascade, "cascade", false, "also everything that depends on them")
	f.BoolVar(&r.Force, "force", false, "also tasks that someone works on; end their tokens")
	f.StringVar(&r.Reason, "reason", "", "the reason, for the history")
	requestIDFlag(cmd, &r.ID)
	return cmd
}
