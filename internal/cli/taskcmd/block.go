package taskcmd

import (
	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/task"
)

func newTasksBlockCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{verb: task.Block, did: "Blocked", would: "Would block"}
	cmd := &cobra.Command{
		Use:   "block TASK...",
		Short: "Block tasks until unblock",
		Long: `Block tasks, with a reason. Their locks are free afterwards, but next does not offer
them until unblock. --token works as in complete.`,
		Example: `  tasklock tasks block t1 --reason "waits for the licence"`,
	}
	o.reasonFlag(cmd, "what they wait for")
	return verbCmd(s, o, cmd, task.InProgress, task.Pending, task.Review)
}

func newTasksUnblockCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{verb: task.Unblock, did: "Unblocked", would: "Would unblock"}
	cmd := &cobra.Command{
		Use:     "unblock TASK...",
		Short:   "Make blocked tasks pending again",
		Example: `  tasklock tasks unblock t1`,
	}
	o.reasonFlag(cmd, "the reason, for the history")
	return verbCmd(s, o, cmd, task.Blocked)
}
