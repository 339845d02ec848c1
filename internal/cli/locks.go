package cli

import "github.com/spf13/cobra"

// newLocksCmd offers the commands about locks under their long names. Alone it
// lists.
func newLocksCmd(a *App) *cobra.Command {
	cmd := newListCmd(a)
	cmd.Use, cmd.Short, cmd.Args = "locks", "The same as list, show, release, cleanup; alone it lists", a.noSuchCommand
	cmd.AddCommand(newListCmd(a), newShowCmd(a), newReleaseCmd(a), newCleanupCmd(a))
	return cmd
}
