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
		Long: `List the tasks in progress whose worker is provably dead, or sent no heartbeat for
its whole ttl. You need not do anything: the next claim takes such a task over, and
next offers it. The fields are those of list.`,
		Args: session.NoArgs,
	}
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		o.defaults(s, cmd)
		return o.run(ctx, s)
	})
	cmd.Flags().StringVar(&o.section, "section", "", "only from this section")
	cmd.Flags().IntVar(&o.limit, "limit", 0, "show at most this many; 0: all")
	return completeFlags(s, cmd)
}
