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
	return jobCmd(s, "trigger", "Fire a job now", `Fire a job now, even if it is paused. If it is already running, its --overlap
decides. history shows the result.`,
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
			return s.Answer(data, func(p *term.Printer) { p.Line("%s %s.", p.Did("Triggered", "Would trigger"), out.RunID) })
		})
}
