package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
)

type updateOptions struct {
	target
	worktree, reason string
}

func newUpdateCmd(a *App) *cobra.Command {
	o := &updateOptions{}
	cmd := &cobra.Command{
		Use:   "update KEY",
		Short: "Change what a lock says about itself",
		Long: `Change the worktree or the reason of a lock. The token stays. It is a sign of
life too: the expiry moves. An empty text removes what was there.`,
		Example:           `  tasklock update fix-bug --worktree ../fix-bug`,
		ValidArgsFunction: a.heldKeys,
	}
	cmd.RunE = a.forKeys(func(ctx context.Context, keys []string) error {
		if err := o.check(a, cmd, keys); err != nil {
			return err
		}
		r := lease.RenewRequest{Keys: keys, Lease: o.lease, Token: o.token, Latest: o.latest}
		if cmd.Flags().Changed("worktree") {
			r.Worktree = &o.worktree
		}
		if cmd.Flags().Changed("reason") {
			r.Reason = &o.reason
		}
		if r.Worktree == nil && r.Reason == nil {
			return usagef("needs --worktree or --reason")
		}
		return a.renew(ctx, r, "Updated", "Would update")
	})
	o.fenceOptions.flags(cmd)
	cmd.Flags().StringVar(&o.worktree, "worktree", "", "where the work is done")
	cmd.Flags().StringVar(&o.reason, "reason", "", "why it is locked")
	return cmd
}
