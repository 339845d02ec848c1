package leasecmd

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
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
		out, err = hold.ReleaseAll(ctx, st, lease.ReleaseRequest{
			Owner: id.Owner, Keys: keys, Lease: o.Lease, All: o.All, Token: o.Token, Latest: o.Latest, Reason: o.reason, DryRun: s.DryRun,
		})
	}
	return hold.Released(s, "Released", "Would release")(out, err)
}
