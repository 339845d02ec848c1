package taskcmd

import (
	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/task"
)

func newTasksUnclaimCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{}
	cmd := &cobra.Command{
		Use:   "unclaim TASK...",
		Short: "Give tasks back: pending again, for others to take",
		Long: `Give tasks back that were claimed: they are pending again and free. Only who works
on a task may; with --token only while that claim is in force (else exit 7).`,
		Example: `  tasklock tasks unclaim t1 --token "$TOKEN" --reason "needs a Mac"`,
	}
	o.reasonFlag(cmd, "why, for the history")
	o.removeFlag(cmd)
	return verbCmd(s, task.Unclaim, o, cmd, "Unclaimed", "Would unclaim", task.InProgress)
}
