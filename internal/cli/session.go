package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

func newSessionCmd(a *App) *cobra.Command {
	of := ""
	end := &cobra.Command{
		Use:   "end",
		Short: "Release everything that the owner and its children hold",
		Long: `Release everything that the owner and its children hold, and leave every queue.
The owner is the caller, or the one given with --owner.

A run that holds a key itself stops within a second or two. A run that works under
a lock which the session acquired before goes on: the key is free when it ends, also
if it is killed.`,
		Args: noArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error { return endSession(ctx, a, of) }),
	}
	end.Flags().StringVar(&of, "of", "", "only what was taken in this session of a coding agent")
	return a.group("session", "End a session", end)
}

func endSession(ctx context.Context, a *App, of string) error {
	id, err := a.caller()
	if err != nil {
		return err
	}
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := releaseAll(ctx, st, lease.ReleaseRequest{Owner: id.Owner, All: true, Of: of, Reason: "session ended", DryRun: a.DryRun})
	if err != nil {
		return err
	}
	return a.answer(newReleaseData(out), func(p *printer) {
		if !a.DryRun {
			p.line("Session of %s ended.", id.Owner)
		}
		p.released("Released", "Would release", out, a.DryRun)
	})
}

// releaseAll repeats the release of everything until nothing is left: one
// commit has room for some hundred leases only.
func releaseAll(ctx context.Context, st *store.Store, r lease.ReleaseRequest) (out lease.ReleaseResult, err error) {
	for {
		some, err := lease.Release(ctx, st, r)
		if err != nil {
			return out, err
		}
		out.Released = append(out.Released, some.Released...)
		out.Free = append(out.Free, some.Free...)
		out.Left, out.Never = some.Left, some.Never
		if !r.All || r.DryRun || len(some.Released) == 0 {
			return out, nil
		}
	}
}
