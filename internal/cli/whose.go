package cli

import "github.com/spf13/cobra"

// whose narrows a list to one owner. --owner does not: it says who is asking,
// and whoever adds it to every command must still see the others.
type whose struct {
	mine bool
	of   string
}

func (w *whose) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.mine, "mine", false, "only the caller's and its children's")
	cmd.Flags().StringVar(&w.of, "of", "", "only this `OWNER`'s and its children's")
	cmd.MarkFlagsMutuallyExclusive("mine", "of")
}

// owner is the one that is meant, empty for all.
func (w *whose) owner(a *App) string {
	if w.mine {
		return a.Identity().Owner
	}
	return w.of
}
