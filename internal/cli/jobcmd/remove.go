package jobcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
)

func newJobsRemoveCmd(s *session.Session) *cobra.Command {
	return jobCmd(s, "remove", "Remove a job", `Remove a job. A present run goes on; the records of its fire times stay for a while.

--force also removes a job with a damaged record.`,
		func(ctx context.Context, st *store.Store, r schedule.ChangeRequest) error {
			if err := schedule.Remove(ctx, st, r); err != nil {
				return err
			}
			return s.Answer(map[string]string{"removed": r.Name}, func(p *term.Printer) {
				p.Line("%s job %s.", p.Did("Removed", "Would remove"), r.Name)
			})
		})
}
