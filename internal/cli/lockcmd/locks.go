package lockcmd

import (
	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
)

// NewLocks offers the commands about locks under their long names. Alone it
// lists.
func NewLocks(s *session.Session, release *cobra.Command) *cobra.Command {
	cmd := NewList(s)
	cmd.Use, cmd.Short, cmd.Args = "locks", "The same as list, show, release and cleanup (default: list)", session.NoSuchCommand
	cmd.AddCommand(NewList(s), NewShow(s), release, NewCleanup(s))
	return cmd
}
