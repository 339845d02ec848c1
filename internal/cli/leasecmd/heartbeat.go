package leasecmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
)

func NewHeartbeat(s *session.Session) *cobra.Command {
	o := &session.Target{}
	cmd := &cobra.Command{
		Use:     "heartbeat [KEY...]",
		Aliases: []string{"renew"},
		Short:   "Renew locks: move their expiry",
		Long: `Renew keys, one lease (--lease) or everything the owner holds (--all): each expires a
full ttl from now. Keys that a parent or a child of the owner holds count too. The
token stays.

Exit codes:
  7  another owner has taken the lock over, or you never held it: stop the work`,
		Example: `  tasklock heartbeat fix-bug
  while sleep 300; do tasklock heartbeat --all || break; done`,
		ValidArgsFunction: s.HeldKeys(),
	}
	cmd.RunE = s.RunKeys(func(ctx context.Context, keys []string) error {
		if err := o.Check(s, cmd, keys); err != nil {
			return err
		}
		return renew(ctx, s, lease.RenewRequest{Keys: keys, Lease: o.Lease, All: o.All, Token: o.Token, Latest: o.Latest}, "Renewed", "Would renew")
	})
	o.Flags(cmd)
	return cmd
}

// renew serves heartbeat and update.
func renew(ctx context.Context, s *session.Session, r lease.RenewRequest, did, would string) error {
	id, st, err := s.Act(ctx, false)
	if err != nil {
		return err
	}
	r.Owner, r.DryRun = id.Owner, s.DryRun
	out, err := lease.Renew(ctx, st, r)
	if out.Leases == nil {
		out.Leases = []lease.Renewed{}
	}
	return session.Reply(s, func(p *term.Printer, out lease.RenewResult) {
		for _, l := range out.Leases {
			p.Line("%s %s (token %d), %s.", p.Did(did, would), strings.Join(l.Keys, ", "), l.Token, view.Ends(p, l.ExpiresAt))
		}
		if len(out.Leases) == 0 {
			p.Line("Nothing is held.")
		}
	})(out, err)
}

type updateOptions struct {
	session.Target
	worktree, reason string
}

func NewUpdate(s *session.Session) *cobra.Command {
	o := &updateOptions{}
	cmd := &cobra.Command{
		Use:   "update KEY",
		Short: "Change the worktree or the reason of a lock",
		Long: `Change the worktree or the reason of a lock. The token stays. It counts as a
heartbeat. An empty text removes the old one.`,
		Example:           `  tasklock update fix-bug --worktree ../fix-bug`,
		ValidArgsFunction: s.HeldKeys(),
	}
	cmd.RunE = s.RunKeys(func(ctx context.Context, keys []string) error {
		if err := o.Check(s, cmd, keys); err != nil {
			return err
		}
		r := lease.RenewRequest{Keys: keys, Lease: o.Lease, Token: o.Token, Latest: o.Latest}
		if cmd.Flags().Changed("worktree") {
			r.Worktree = &o.worktree
		}
		if cmd.Flags().Changed("reason") {
			r.Reason = &o.reason
		}
		if r.Worktree == nil && r.Reason == nil {
			return session.Usagef("needs --worktree or --reason")
		}
		return renew(ctx, s, r, "Updated", "Would update")
	})
	o.FenceOptions.Flags(cmd)
	cmd.Flags().StringVar(&o.worktree, "worktree", "", "the worktree of the work")
	cmd.Flags().StringVar(&o.reason, "reason", "", "the reason of the lock")
	return cmd
}
