package session

import (
	"github.com/spf13/cobra"
)

// Whose narrows a list to one owner. --owner does not: it says who is asking,
// and whoever adds it to every command must still see the others.
type Whose struct {
	mine bool
	of   string
}

func (w *Whose) Flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.mine, "mine", false, "only the caller's and its children's")
	cmd.Flags().StringVar(&w.of, "of", "", "only this `OWNER`'s and its children's")
	cmd.MarkFlagsMutuallyExclusive("mine", "of")
}

// Owner is the one that is meant, empty for all.
func (w *Whose) Owner(s *Session) string {
	if w.mine {
		return s.Identity().Owner
	}
	return w.of
}
