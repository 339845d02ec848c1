package leasecmd

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
)

type releaseOptions struct {
	session.Target
	force  bool
	reason string
}

func NewRelease(s *session.Session) *cobra.Command {
	o := &releaseOptions{}
	cmd := &cobra.Command{
		Use:   "release [KEY...]",
		Short: "Release keys",
		Long: `Release keys, one lease (--lease) or everything the owner holds (--all).

Releasing a free key is not an error; the answer says if the caller never held it.
--force breaks the lock of another owner: it ends the whole lease, and history shows
who did it.

Exit codes:
  5  another owner holds the key
  7  --token is not that of the last grant`,
		Example: `  tasklock release fix-bug
  tasklock release --all
  tasklock release fix-bug --force --reason "its machine burned down"`,
		ValidArgsFunction: s.HeldKeys(),
	}
	cmd.RunE = s.RunKeys(func(ctx context.Context, keys []string) error {
		if err := o.Check(s, cmd, keys); err != nil {
			return err
		}
		return o.run(ctx, s, keys)
	})
	o.Flags(cmd)
	cmd.Flags().BoolVar(&o.force, "force", false, "also release what another owner holds")
	cmd.Flags().StringVar(&o.reason, "reason", "", "the reason, for the history")
	return cmd
}

func (o *releaseOptions) run(ctx context.Context, s *session.Session, keys []string) error {
	switch {
	case o.force && len(keys) == 0:
		return session.Usagef("--force goes with keys")
	case o.force && o.Lease != "" && !o.FromEnv:
		return session.Usagef("--force ends the lock of any holder: it does not go with --lease")
	}
	id, st, err := s.Act(ctx, false)
	if err != nil {
		return err
	}
	var out lease.ReleaseResult
	if o.force {
		out, err = lease.Break(ctx, st, lease.BreakRequest{Keys: keys, By: id.Owner, Reason: cmp.Or(o.reason, "release --force"), Token: o.Token, Lease: o.Lease, DryRun: s.DryRun})
	} else {
		out, err = lease.Release(ctx, st, lease.ReleaseRequest{
			Owner: id.Owner, Keys: keys, Lease: o.Lease, All: o.All, Token: o.Token, Latest: o.Latest, Reason: o.reason, DryRun: s.DryRun,
		})
	}
	return hold.Released(s, "Released", "Would release")(out, err)
}

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
	out, err := lease.Release(ctx, st, lease.ReleaseRequest{Owner: id.Owner, All: true, Session: of, Reason: "session ended", DryRun: s.DryRun})
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
