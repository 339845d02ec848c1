package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
)

type releaseOptions struct {
	target
	force  bool
	reason string
}

func newReleaseCmd(a *App) *cobra.Command {
	o := &releaseOptions{}
	cmd := &cobra.Command{
		Use:   "release [KEY...]",
		Short: "Give keys back",
		Long: `Give back keys, one lease (--lease) or everything the owner holds (--all).

Releasing a free key is not an error; the answer says if the caller never held it.
A --token that is not of the last grant is refused (exit 7), and so is a key that
another owner holds (exit 5). --force breaks that lock: it ends the whole lease,
and history shows who did it.`,
		Example: `  tasklock release fix-bug
  tasklock release --all
  tasklock release fix-bug --force --reason "its machine burned down"`,
		ValidArgsFunction: a.heldKeys,
	}
	cmd.RunE = a.forKeys(func(ctx context.Context, keys []string) error {
		if err := o.check(a, cmd, keys); err != nil {
			return err
		}
		return o.run(ctx, a, keys)
	})
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.force, "force", false, "also what another owner holds")
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for the history")
	return cmd
}

func (o *releaseOptions) run(ctx context.Context, a *App, keys []string) error {
	switch {
	case o.force && len(keys) == 0:
		return usagef("--force goes with keys")
	case o.force && o.lease != "" && !o.fromEnv:
		return usagef("--force ends a lock whoever holds it: it does not go with --lease")
	}
	id, err := a.caller()
	if err != nil {
		return err
	}
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	var out lease.ReleaseResult
	if o.force {
		reason := o.reason
		if reason == "" {
			reason = "release --force"
		}
		out, err = lease.Break(ctx, st, lease.BreakRequest{Keys: keys, By: id.Owner, Reason: reason, Token: o.token, Lease: o.lease, DryRun: a.DryRun})
	} else {
		out, err = releaseAll(ctx, st, lease.ReleaseRequest{
			Owner: id.Owner, Keys: keys, Lease: o.lease, All: o.all, Token: o.token, Latest: o.latest, Reason: o.reason, DryRun: a.DryRun,
		})
	}
	if err != nil {
		return err
	}
	return a.answer(newReleaseData(out), func(p *printer) { p.released("Released", "Would release", out, a.DryRun) })
}

// releaseData is a release with every field present.
type releaseData struct {
	Released []lease.Released `json:"released"`
	Free     []string         `json:"free"`
	Never    []string         `json:"never,omitempty"` // of these: never held by the caller
	Left     []string         `json:"left,omitempty"`  // free when those who work under them end
}

func newReleaseData(r lease.ReleaseResult) releaseData {
	return releaseData{Released: append([]lease.Released{}, r.Released...), Free: append([]string{}, r.Free...), Never: r.Never, Left: r.Left}
}

func (p *printer) released(did, would string, out lease.ReleaseResult, dry bool) {
	verb := green.of(did)
	if dry {
		verb = yellow.of(would)
	}
	for _, r := range out.Released {
		p.line("%s %s (token %d, held by %s).", verb, r.Key, r.Token, short(r.Owner, 120))
	}
	for _, k := range out.Free {
		if slices.Contains(out.Never, k) {
			p.line("%s was free already, and never yours as far as the history goes back.", k)
			continue
		}
		p.line("%s was free already.", k)
	}
	for _, k := range out.Left {
		p.line("%s stays locked until those who work under it end (tasklock show %s names them).", k, k)
	}
	if len(out.Released)+len(out.Free)+len(out.Left) == 0 {
		p.line("Nothing was held.")
	}
}
