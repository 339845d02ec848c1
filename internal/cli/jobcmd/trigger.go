package jobcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
)

func newJobsTriggerCmd(s *session.Session) *cobra.Command {
	return jobCmd(s, "trigger", "Fire a job now", `Fire a job now, paused or not, besides its own times. If it is running already, its
--overlap decides. history shows what came of it.`,
		func(ctx context.Context, st *store.Store, r schedule.ChangeRequest) error {
			out, err := schedule.Trigger(ctx, st, r)
			if err != nil {
				return err
			}
			job, err := schedule.Show(ctx, st, r.Name)
			if err != nil {
				return err
			}
			defer whoFires(s, job.Schedulers)
			data := struct {
				schedule.TriggerResult
				Schedulers []schedule.Pod `json:"schedulers"`
			}{out, job.Schedulers}
			return s.Answer(data, func(p *term.Printer) { p.Line("%s %s.", s.Did("Triggered", "Would trigger"), out.RunID) })
		})
}
