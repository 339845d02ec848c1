package taskcmd

import (
	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/task"
)

func newTasksFailCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{verb: task.Fail, did: "Failed", would: "Would fail"}
	cmd := &cobra.Command{
		Use:   "fail TASK...",
		Short: "Mark tasks as failed; tasks that wait for them go on waiting",
		Long: `Mark tasks as failed, with a reason. Their locks are free afterwards; tasks that wait
for them go on waiting. reset makes them pending again. --token works as in complete.`,
		Example: `  tasklock tasks fail t1 --token "$TOKEN" --reason "the API is gone"`,
	}
	o.reasonFlag(cmd, "what went wrong")
	o.resultFlags(cmd)
	o.removeFlag(cmd)
	return verbCmd(s, o, cmd, task.InProgress, task.Pending, task.Review)
}
