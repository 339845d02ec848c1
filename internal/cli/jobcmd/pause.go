package jobcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
)

func newJobsPauseCmd(s *session.Session) *cobra.Command {
	return jobCmd(s, "pause", "Keep a job from firing until resume", `Keep a job from firing until resume. A present run goes on; trigger still works.`,
		func(ctx context.Context, st *store.Store, r schedule.ChangeRequest) error {
			out, err := schedule.Pause(ctx, st, r)
			if err != nil {
				return err
			}
			return s.Answer(out, func(p *term.Printer) { p.Line("%s job %s.", p.Did("Paused", "Would pause"), out.Name) })
		})
}
