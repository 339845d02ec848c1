package session

import (
	"github.com/spf13/cobra"
)

// Whose limits a list to one owner. --owner does not: it says who asks, and a
// caller that adds it to every command must still see the others.
type Whose struct {
	mine bool
	of   string
}

// Flags adds them to a command.
func (w *Whose) Flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.mine, "mine", false, "only those of the caller and its children")
	cmd.Flags().StringVar(&w.of, "of", "", "only those of this `OWNER` and its children")
	cmd.MarkFlagsMutuallyExclusive("mine", "of")
}

// Owner is the one that is meant, empty for all.
func (w *Whose) Owner(s *Session) string {
	if w.mine {
		return s.Identity().Owner
	}
	return w.of
}
