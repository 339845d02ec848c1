package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
)

type checkOptions struct {
	fenceOptions
	mine bool
}

func newCheckCmd(a *App) *cobra.Command {
	o := &checkOptions{}
	cmd := &cobra.Command{
		Use:   "check KEY",
		Short: "Is a key locked? Exit 0: yes, 1: no",
		Long: `Tell whether a key is locked: exit 0 if it is, 1 if it is free, and never 1 for
another reason.

With --token, or under run: exit 0 while that token is in force, 7 once it is
not. With --mine: exit 0 if the caller, a parent of it or their MCP server holds
the key and it has not expired, else 7.`,
		Example: `  tasklock check fix-bug || echo free
  tasklock check fix-bug --token "$TOKEN" && git push`,
		Args:              oneKey,
		ValidArgsFunction: a.heldKeys,
	}
	cmd.RunE = a.forKeys(func(ctx context.Context, keys []string) error {
		if !o.mine {
			if err := o.fill(a, cmd, keys); err != nil {
				return err
			}
		}
		return o.run(ctx, a, keys[0])
	})
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.mine, "mine", false, "is it held by the caller or a parent of it?")
	cmd.MarkFlagsMutuallyExclusive("mine", "token")
	cmd.MarkFlagsMutuallyExclusive("mine", "lease")
	return cmd
}

func (o *checkOptions) run(ctx context.Context, a *App, key string) error {
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	r := lease.CheckRequest{Key: key, Token: o.token, Latest: o.latest}
	switch {
	case o.mine:
		r.Mine = a.Identity().Owner
	case o.lease != "":
		r.Lease, r.Owner = o.lease, a.Identity().Owner
	}
	out, err := lease.Check(ctx, st, r)
	if err != nil {
		return err
	}
	err = a.answer(out, func(p *printer) {
		switch {
		case out.Locked && out.Lock.Key != out.Key:
			as := "as part of " // another path
			if kind, _ := lease.KindOf(out.Key); kind == lease.Task {
				as = "as " // a name that was locked before the task had it
			}
			p.line("%s is locked %s%s by %s, token %d, %s.", out.Key, as, out.Lock.Key, out.Lock.Owner, out.Lock.Token, p.ends(out.Lock.ExpiresAt))
		case out.Locked:
			p.line("%s is locked by %s, token %d, %s.", out.Key, out.Lock.Owner, out.Lock.Token, p.ends(out.Lock.ExpiresAt))
		default:
			p.line("%s is free.", out.Key)
		}
		if out.Locked {
			p.line("%s.", p.holding(*out.Lock))
		}
	})
	if err == nil && !out.Locked && !o.mine && o.token == 0 && o.latest == 0 && o.lease == "" {
		return &exitWith{problem.Error}
	}
	return err
}
