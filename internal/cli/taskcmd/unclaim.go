package taskcmd

import (
	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/task"
)

func newTasksUnclaimCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{verb: task.Unclaim, did: "Unclaimed", would: "Would unclaim"}
	cmd := &cobra.Command{
		Use:   "unclaim TASK...",
		Short: "Release claimed tasks: pending again",
		Long: `Release claimed tasks: they are pending again and free. Only the owner of the claim
may do it.

Exit codes:
  7  --token is not that of the present claim`,
		Example: `  tasklock tasks unclaim t1 --token "$TOKEN" --reason "needs a Mac"`,
	}
	o.reasonFlag(cmd, "the reason, for the history")
	o.removeFlag(cmd)
	return verbCmd(s, o, cmd, task.InProgress)
}
