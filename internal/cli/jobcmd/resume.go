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
	return jobCmd(s, "resume", "Let a paused job fire again", `Let a paused job fire again, from now on. Missed fire times stay missed.

--force also resumes a job whose record of due fire times is damaged: it writes a new
one, without triggers that have not run. It finds present runs by their fire times.`,
		func(ctx context.Context, st *store.Store, r schedule.ChangeRequest) error {
			out, err := schedule.Resume(ctx, st, r)
			if err != nil {
				return err
			}
			if job, err := schedule.Show(ctx, st, r.Name); err == nil {
				defer whoFires(s, job.Schedulers)
			}
			return s.Answer(out, func(p *term.Printer) {
				p.Line("%s job %s, fires %s.", p.Did("Resumed", "Would resume"), out.Name, fires(p, out.Next))
			})
		})
}
