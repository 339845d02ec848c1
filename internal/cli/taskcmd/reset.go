package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/task"
)

func newTasksResetCmd(s *session.Session) *cobra.Command {
	var r task.ResetRequest
	var failed, blocked, all bool
	cmd := &cobra.Command{
		Use:   "reset [TASK...]",
		Short: "Make tasks pending again, as if nobody had begun",
		Long: `Make tasks pending again, whatever became of them, all of them in one step. With
--cascade also everything that depends on them, however far, at most 1,000 tasks.
--failed and --blocked mean every task that is so, --all both.
What someone works on is refused with the holders (exit 6); --force breaks their
locks, and what they report with their tokens is refused afterwards.`,
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
		RunE: s.Run(func(ctx context.Context, refs []string) error {
			id, err := s.Caller()
			if err != nil {
				return err
			}
			st, err := s.Store(ctx, false)
			if err != nil {
				return err
			}
			r.Tasks, r.By, r.DryRun, r.Status = refs, id.Owner, s.DryRun, nil
			if failed || all {
				r.Status = append(r.Status, task.Failed)
			}
			if blocked || all {
				r.Status = append(r.Status, task.Blocked)
			}
			out, err := task.ResetTasks(ctx, st, r)
			if err != nil {
				return err
			}
			return changed(s, out, "Reset", "Would reset")
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&failed, "failed", false, "every task that failed")
	f.BoolVar(&blocked, "blocked", false, "every task that is blocked")
	f.BoolVar(&all, "all", false, "every task that failed or is blocked")
	f.BoolVar(&r.Cascade, "cascade", false, "with everything that depends on them")
	f.BoolVar(&r.Force, "force", false, "also what someone works on: their tokens die")
	f.StringVar(&r.Reason, "reason", "", "why, for the history")
	return cmd
}
