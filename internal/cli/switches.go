package cli

import (
	"slices"
	"strconv"

	"github.com/spf13/cobra"
)

// switches reads the variables that stand for flags. A flag that was given wins.
// Commands that programs call in their own way are not asked to speak otherwise.
func (a *App) switches(cmd *cobra.Command) error {
	if slices.Contains([]string{"hook", "mcp", "keeper"}, commandName(cmd)) {
		return nil
	}
	for _, s := range []struct {
		env, flag string
		on        *bool
	}{{"TASKLOCK_JSON", "json", &a.JSON}, {"TASKLOCK_QUIET", "quiet", &a.Quiet}, {"TASKLOCK_NO_WAIT", "no-wait", &a.noWait}} {
		text := a.Env(s.env)
		if f := cmd.Flags().Lookup(s.flag); text == "" || f != nil && f.Changed {
			continue
		}
		on, err := strconv.ParseBool(text)
		if err != nil {
			return usagef("%s: must be true or false, not %q", s.env, short(text, 40))
		}
		*s.on = on
	}
	return nil
}

// wantsJSON is for a command line that could not be read.
func (a *App) wantsJSON(args []string) bool {
	on, _ := strconv.ParseBool(a.Env("TASKLOCK_JSON"))
	return on || asksForJSON(args)
}
