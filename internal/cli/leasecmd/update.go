package leasecmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/lease"
)

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
