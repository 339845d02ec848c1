package cli

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/rewrite"
)

// A flag that the hook takes for a switch has no value, in any command: else what
// is put behind it would be one.
func TestSwitchesHaveNoValue(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		check := func(f *pflag.Flag) {
			if slices.Contains(rewrite.Switches, "--"+f.Name) && f.NoOptDefVal == "" {
				t.Errorf("%s: --%s takes a value", cmd.CommandPath(), f.Name)
			}
		}
		cmd.Flags().VisitAll(check)
		cmd.PersistentFlags().VisitAll(check)
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(root((&session.Session{}), nil))
}
