package leasecmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/lease"
)

type breakOptions struct {
	reason, requestID string
	of                string
	token             int64
}

func NewBreak(s *session.Session) *cobra.Command {
	o := &breakOptions{}
	cmd := &cobra.Command{
		Use:   "break KEY... --reason TEXT",
		Short: "End the leases of other owners",
		Long: `End the leases that hold the keys, whoever holds them.

Their tokens end too: the store refuses what their holders write from now on. The
history keeps who did it and why.

Of a pool it needs the slot (pool:tests#2), or the owner whose slots are meant:
--of. Breaking one slot ends its whole lease.`,
		Example: `  tasklock break fix-bug --reason "agent hangs, see chat"
  tasklock break pool:tests#2 --reason "its tests hang"`,
		Args:              session.AtLeastOne("key"),
		ValidArgsFunction: s.HeldKeys(),
	}
	cmd.RunE = s.RunKeys(func(ctx context.Context, keys []string) error {
		if cmd.Flags().Changed("token") && o.token <= 0 {
			return session.Usagef("--token: must be a positive number")
		}
		return o.run(ctx, s, keys)
	})
	cmd.Flags().StringVar(&o.reason, "reason", "", "the reason, for the history (required)")
	cmd.Flags().Int64Var(&o.token, "token", 0, "only if the lock has this token")
	cmd.Flags().StringVar(&o.of, "of", "", "of a pool: the slots of this `OWNER` and its children")
	cmd.Flags().StringVar(&o.requestID, "request-id", "", "repeat a request with this id: it has one effect")
	return cmd
}

func (o *breakOptions) run(ctx context.Context, s *session.Session, keys []string) error {
	if o.reason == "" {
		return session.Usagef("needs --reason: it is kept in the history")
	}
	for _, key := range keys {
		_, _, slot := lease.SlotOf(key)
		if kind, _ := lease.KindOf(key); o.of != "" && (slot || kind != lease.Pool) {
			return session.Usagef("--of goes with a pool, not with %s", key)
		}
	}
	id, st, err := s.Act(ctx, false)
	if err != nil {
		return err
	}
	return hold.Released(s, "Broke", "Would break")(lease.Break(ctx, st, lease.BreakRequest{
		Keys: keys, By: id.Owner, Reason: o.reason, ID: o.requestID, Token: o.token, Owner: o.of, DryRun: s.DryRun,
	}))
}
