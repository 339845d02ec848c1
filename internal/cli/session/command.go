package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
)

// CommandName is the path of a command without the program: "locks list".
func CommandName(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return name
}

// Group is a command that only has subcommands.
func Group(use, short string, cmds ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: NoSuchCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	g.AddCommand(cmds...)
	return g
}

// NoSuchCommand is the argument check of commands that take only subcommands.
func NoSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", term.Short(args[0], 60), cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return &UsageError{Text: text}
}

// runFunc is the work of a command after its flags are read.
type runFunc func(ctx context.Context, args []string) error

// Run makes a RunE: it notes which command runs with which flags.
func (s *Session) Run(run runFunc) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s.Command, s.args, s.keyArgs = CommandName(cmd), args, args
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			s.keyArgs = args[:dash:dash]
		}
		s.flags = map[string]string{}
		if err := s.switches(cmd); err != nil {
			return err
		}
		for _, name := range []string{"store", "owner", "allow-unsafe-fs", "timeout", "lease"} {
			if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
				s.flags[name] = f.Value.String()
			}
		}
		for ctx := cmd.Context(); ; {
			err := run(ctx, args)
			wait := Begun(ctx)
			if wait == (Patience{}) {
				wait = attemptOf(err).Waited
			}
			if !s.asksAgain(ctx, wait, err) {
				return err
			}
			ctx = context.WithValue(cmd.Context(), patienceKey{}, wait)
		}
	}
}

// RunStore is Run for a command that begins by opening the store, and makes none.
func (s *Session) RunStore(run func(ctx context.Context, st *store.Store, args []string) error) func(*cobra.Command, []string) error {
	return s.Run(func(ctx context.Context, args []string) error {
		st, err := s.Store(ctx, false)
		if err != nil {
			return err
		}
		return run(ctx, st, args)
	})
}

// RunAs is Run for a command that changes something in the name of its caller, and
// makes no store.
func (s *Session) RunAs(run func(ctx context.Context, st *store.Store, by string, args []string) error) func(*cobra.Command, []string) error {
	return s.Run(func(ctx context.Context, args []string) error {
		id, st, err := s.Act(ctx, false)
		if err != nil {
			return err
		}
		return run(ctx, st, id.Owner, args)
	})
}

// Argument checks; what they refuse is a usage error.

// NoArgs refuses arguments.
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("takes no arguments, got %q", term.Short(args[0], 60))
	}
	return nil
}

// One wants exactly one argument; advice is for who gave another number.
func One(what string, advice ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usagef("%s", strings.Join(append([]string{fmt.Sprintf("takes one %s, got %d", what, len(args))}, advice...), "; "))
		}
		return nil
	}
}

// AtLeastOne wants one argument or more.
func AtLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef("needs at least one %s", what)
		}
		return nil
	}
}

// AtMostOne wants one argument or none.
func AtMostOne(what string, advice ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return One(what, advice...)(cmd, args)
	}
}

// GuardianVerb starts the guardian of run: a second tasklock, see package runner.
// It is not for people.
const GuardianVerb = "guardian"
