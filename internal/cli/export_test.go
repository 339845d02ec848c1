package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tasklock/tasklock/internal/cli/agentcmd"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/githooks"
	"github.com/tasklock/tasklock/internal/guard"
	"github.com/tasklock/tasklock/internal/harness"
)

// Patient lets hooks take the time that they need on a busy machine: what they
// do when they do not get it depends on the machine.
func Patient() {
	for _, wait := range []*time.Duration{&guard.LookTime, &agentcmd.HookTime, &agentcmd.EndTime, &githooks.AskTime, &harness.GitTime, &harness.ReadTime} {
		*wait = time.Minute
	}
}

// Help returns what every command says about itself, by its name.
func Help() map[string]string {
	s := &session.Session{}
	out := map[string]string{}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		out[cmd.CommandPath()] = cmd.Long + "\n" + cmd.Example + "\n"
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(root(s, nil))
	return out
}

// Names reports whether words are the name of a command and nothing else.
func Names(words []string) bool {
	s := &session.Session{}
	cmd, rest, err := root(s, words).Find(words)
	return err == nil && len(rest) == 0 && cmd.Name() == words[len(words)-1]
}

// Understands reports whether args are a command line that this command can
// make sense of, without running it.
func Understands(args []string) error {
	s := &session.Session{}
	cmd, rest, err := root(s, args).Find(args)
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
