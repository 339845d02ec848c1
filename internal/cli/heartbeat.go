package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
)

func newHeartbeatCmd(a *App) *cobra.Command {
	o := &target{}
	cmd := &cobra.Command{
		Use:     "heartbeat [KEY...]",
		Aliases: []string{"renew"},
		Short:   "Say that the work goes on: move the expiry",
		Long: `Move the expiry of keys, of one lease (--lease) or of everything the owner holds
(--all) to a full ttl from now, also of what a parent or a child of the owner holds.
The token stays. A lock that someone else has taken over, or that was never held,
is refused with exit 7: stop the work.`,
		Example: `  tasklock heartbeat fix-bug
  while sleep 300; do tasklock heartbeat --all || break; done`,
		ValidArgsFunction: a.heldKeys,
	}
	cmd.RunE = a.forKeys(func(ctx context.Context, keys []string) error {
		if err := o.check(a, cmd, keys); err != nil {
			return err
		}
		return a.renew(ctx, lease.RenewRequest{Keys: keys, Lease: o.lease, All: o.all, Token: o.token, Latest: o.latest}, "Renewed", "Would renew")
	})
	o.flags(cmd)
	return cmd
}

// renew serves heartbeat and update.
func (a *App) renew(ctx context.Context, r lease.RenewRequest, did, would string) error {
	id, err := a.caller()
	if err != nil {
		return err
	}
	r.Owner, r.DryRun = id.Owner, a.DryRun
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := lease.Renew(ctx, st, r)
	if err != nil {
		return err
	}
	if out.Leases == nil {
		out.Leases = []lease.Renewed{}
	}
	return a.answer(out, func(p *printer) {
		verb := green.of(did)
		if a.DryRun {
			verb = yellow.of(would)
		}
		for _, l := range out.Leases {
			p.line("%s %s (token %d), %s.", verb, strings.Join(l.Keys, ", "), l.Token, p.ends(l.ExpiresAt))
		}
		if len(out.Leases) == 0 {
			p.line("Nothing is held.")
		}
	})
}
