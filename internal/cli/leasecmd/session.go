package leasecmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
)

func NewSession(s *session.Session) *cobra.Command {
	of := ""
	end := &cobra.Command{
		Use:   "end",
		Short: "Release everything that the owner and its children hold",
		Long: `Release everything that the owner and its children hold, and leave every queue. The
owner is the caller, or --owner.

A run that holds a key itself stops within a second or two. A run under a lock that
the session acquired before goes on: the key is free when the run ends.`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return endSession(ctx, s, of) }),
	}
	end.Flags().StringVar(&of, "of", "", "only what this session of a coding agent acquired")
	return session.Group("session", "End a session", end)
}

func endSession(ctx context.Context, s *session.Session, of string) error {
	id, st, err := s.Act(ctx, false)
	if err != nil {
		return err
	}
	out, err := hold.ReleaseAll(ctx, st, lease.ReleaseRequest{Owner: id.Owner, All: true, Session: of, Reason: "session ended", DryRun: s.DryRun})
	if err != nil {
		return err
	}
	return s.Answer(view.NewReleaseData(out), func(p *term.Printer) {
		if !s.DryRun {
			p.Line("Session of %s ended.", id.Owner)
		}
		view.PrintReleased(p, "Released", "Would release", out)
	})
}
