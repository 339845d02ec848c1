package cli

import (
	"errors"

	"github.com/spf13/pflag"
)

// Understands reports whether args are a command line that this command can
// make sense of, without running it.
func Understands(args []string) error {
	a := &App{}
	cmd, rest, err := a.root(args).Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if err := cmd.ValidateFlagGroups(); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
