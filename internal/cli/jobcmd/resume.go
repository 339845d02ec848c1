package jobcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
)

func newJobsResumeCmd(s *session.Session) *cobra.Command {
	return jobCmd(s, "resume", "Let a paused job fire again", `Let a paused job fire again, from now on. The times that passed meanwhile are not made up for.

With --force also one that does not fire because the record of what is due is damaged: it
is written anew. What was triggered by hand is forgotten; what runs is known by its fire time.`,
		func(ctx context.Context, st *store.Store, r schedule.ChangeRequest) error {
			out, err := schedule.Resume(ctx, st, r)
			if err != nil {
				return err
			}
			if job, err := schedule.Show(ctx, st, r.Name); err == nil {
				defer whoFires(s, job.Schedulers)
			}
			return s.Answer(out, func(p *term.Printer) {
				p.Line("%s job %s, fires %s.", s.Did("Resumed", "Would resume"), out.Name, fires(p, out.Next))
			})
		})
}
