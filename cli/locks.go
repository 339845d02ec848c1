package cli

import "github.com/spf13/cobra"

// newLocksCmd offers the commands about locks under their long names.
func newLocksCmd(a *App) *cobra.Command {
	return a.group("locks", "The same as list, show, release, cleanup",
		newListCmd(a), newShowCmd(a), newReleaseCmd(a), newCleanupCmd(a))
}
