package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/store"
)

func newRunnerStopCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "stop [NAME]",
		Short: "Ask a runner, or all of them, to stop",
		Long: `Ask a runner to stop, wherever it runs; without a name, ask all. If its command ends
within --grace, the task is completed; otherwise it becomes pending again.`,
		Args:              session.AtMostOne("name"),
		ValidArgsFunction: runnerNames(s),
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, args []string) error {
			r := worker.StopRequest{By: s.Identity().Owner, DryRun: s.DryRun}
			if len(args) > 0 {
				r.Name = args[0]
			}
			return stopRunners(ctx, s, st, r)
		}),
	}
}

func stopRunners(ctx context.Context, s *session.Session, st *store.Store, r worker.StopRequest) error {
	out, err := worker.Stop(ctx, st, r)
	if err != nil {
		return err
	}
	return s.Answer(out, func(p *term.Printer) {
		for _, name := range out.Asked {
			p.Line("%s %s to stop.", p.Did("Asked", "Would ask"), name)
		}
		if len(out.Asked) == 0 {
			p.Line("No runners.")
		}
	})
}
