package session

import (
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/term"
)

// switches reads the variables that mean flags. A given flag wins. Commands that
// programs call in their own form ignore them.
func (s *Session) switches(cmd *cobra.Command) error {
	if slices.Contains([]string{"hook", "mcp", "keeper"}, CommandName(cmd)) {
		return nil
	}
	for _, one := range []struct {
		env, flag string
		on        *bool
	}{{"TASKLOCK_JSON", "json", &s.JSON}, {"TASKLOCK_QUIET", "quiet", &s.Quiet}, {"TASKLOCK_NO_WAIT", "no-wait", &s.NoWait}} {
		text := s.Env(one.env)
		if f := cmd.Flags().Lookup(one.flag); text == "" || f != nil && f.Changed {
			continue
		}
		on, err := strconv.ParseBool(text)
		if err != nil {
			return Usagef("%s: must be true or false, not %q", one.env, term.Short(text, 40))
		}
		*one.on = on
	}
	return nil
}

// WantsJSON is for a command line that could not be parsed.
func (s *Session) WantsJSON(args []string) bool {
	on, _ := strconv.ParseBool(s.Env("TASKLOCK_JSON"))
	return on || asksForJSON(args)
}

func asksForJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json")
}
