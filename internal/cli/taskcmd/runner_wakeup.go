package taskcmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/store"
)

func newRunnerWakeupCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "wakeup",
		Short: "Free the tasks of dead and silent workers, and wake idle runners",
		Long: `Make the tasks of dead workers pending again, and those of workers that are silent
for longer than their ttl; then let every runner look for work. You never need this:
the next worker takes over such tasks.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error { return wakeRunners(ctx, s, st) }),
	}
}

type wakeupData struct {
	Recovered []taskInfo `json:"recovered"`
	Woken     []string   `json:"woken"`
}

func wakeRunners(ctx context.Context, s *session.Session, st *store.Store) error {
	out, err := worker.Wakeup(ctx, st, worker.WakeupRequest{By: s.Identity().Owner, DryRun: s.DryRun})
	if err != nil {
		return err
	}
	data := wakeupData{Recovered: []taskInfo{}, Woken: out.Woken}
	for _, t := range out.Recovered {
		data.Recovered = append(data.Recovered, newTaskInfo(t))
	}
	return s.Answer(data, func(p *term.Printer) {
		for _, t := range out.Recovered {
			p.Line("%s %s of %s (%s).", p.Did("Recovered", "Would recover"), taskName(t.Task), term.Short(t.ClaimedBy, 60), string(t.Lock.State))
		}
		if len(out.Recovered) == 0 {
			p.Line("Nothing to recover.")
		}
		if len(out.Woken) > 0 {
			p.Line("%s %s.", p.Did("Woke", "Would wake"), strings.Join(out.Woken, ", "))
		}
	})
}
