package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/store"
)

func NewRunner(s *session.Session) *cobra.Command {
	return session.Group("runner", "Work through the tasks, one after the other",
		newRunnerStartCmd(s), newRunnerListCmd(s), newRunnerStopCmd(s), newRunnerWakeupCmd(s))
}

func runnerNames(s *session.Session) cobra.CompletionFunc {
	return s.Completion(1, func(ctx context.Context, st *store.Store) (names []string, err error) {
		out, err := worker.List(ctx, st)
		for _, r := range out.Runners {
			names = append(names, r.Name)
		}
		return names, err
	})
}
