package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
)

// heldKeys completes keys that are locked. A shell that waits for it is a shell
// that hangs: it gives up soon, and says nothing of what goes wrong.
func (a *App) heldKeys(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.Quiet = true
	st, err := a.Store(ctx, false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out, err := lease.List(ctx, st, lease.ListRequest{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var keys []string
	for _, l := range out.Locks {
		keys = append(keys, l.Key+"\t"+clean(short(l.Owner, 60)))
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}
