package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
)

func newTasksStalledCmd(s *session.Session) *cobra.Command {
	o := &tasksListOptions{stalled: true}
	cmd := &cobra.Command{
		Use:   "stalled",
		Short: "List the tasks whose worker is dead or silent",
		Long: `List the tasks in progress whose worker is provably dead, or gave no sign of life
for its whole ttl. Nothing needs to be done about them: whoever claims such a task
takes it over, and next offers it. The fields are those of list.`,
		Args: session.NoArgs,
	}
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		o.defaults(s, cmd)
		return o.run(ctx, s)
	})
	cmd.Flags().StringVar(&o.section, "section", "", "only from this section")
	cmd.Flags().IntVar(&o.limit, "limit", 0, "at most so many; 0: all")
	return completeFlags(s, cmd)
}
