package taskcmd

import (
	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/task"
)

func newTasksBlockCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{}
	cmd := &cobra.Command{
		Use:   "block TASK...",
		Short: "Tasks cannot go on until someone says unblock",
		Long: `Say that tasks cannot go on, and why. Their locks are free afterwards, but nobody
gets them from next until unblock. --token as in complete.`,
		Example: `  tasklock tasks block t1 --reason "waits for the licence"`,
	}
	o.reasonFlag(cmd, "what they wait for")
	return verbCmd(s, task.Block, o, cmd, "Blocked", "Would block", task.InProgress, task.Pending, task.Review)
}

func newTasksUnblockCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{}
	cmd := &cobra.Command{
		Use:     "unblock TASK...",
		Short:   "Blocked tasks may go on: pending again",
		Example: `  tasklock tasks unblock t1`,
	}
	o.reasonFlag(cmd, "why, for the history")
	return verbCmd(s, task.Unblock, o, cmd, "Unblocked", "Would unblock", task.Blocked)
}
