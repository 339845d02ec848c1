package session

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tasklock/tasklock/internal/cli/config"
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

// line is the command line.
type line struct {
	started time.Time
	words   []string       // as they were typed
	name    string         // of the command that runs: "locks list"
	cmd     *cobra.Command // nil: none runs
	args    []string       // its arguments
}

// keys are the arguments before "--".
func (l line) keys() []string {
	if l.cmd == nil || l.cmd.ArgsLenAtDash() < 0 {
		return l.args
	}
	return l.args[:l.cmd.ArgsLenAtDash():l.cmd.ArgsLenAtDash()]
}

// given are the flags that were given, of those that can be configured or name a lease.
func (l line) given() map[string]string {
	given := map[string]string{}
	for _, name := range []string{"store", "owner", "allow-unsafe-fs", "timeout", "lease"} {
		if f := l.flag(name); f != nil && f.Changed {
			given[name] = f.Value.String()
		}
	}
	return given
}

// flag is a flag of the command, nil if it has none of that name.
func (l line) flag(name string) *pflag.Flag {
	if l.cmd == nil {
		return nil
	}
	return l.cmd.Flags().Lookup(name)
}

// After is the word that was typed after a flag, empty if there is none.
func (s *Session) After(flag string) string {
	if i := slices.Index(s.line.words, flag); i >= 0 && i+1 < len(s.line.words) {
		return s.line.words[i+1]
	}
	return ""
}

// Elapsed is how long the command has run.
func (s *Session) Elapsed() time.Duration { return time.Since(s.line.started) }

// Runs reports whether a command has begun to run.
func (s *Session) Runs() bool { return s.line.cmd != nil }

// Misread notes which command was meant by a line that is wrong.
func (s *Session) Misread(command string) { s.line.name = command }

// runFunc is the work of a command after its flags are read.
type runFunc func(ctx context.Context, args []string) error

// Run makes a RunE: it notes which command runs with which flags.
func (s *Session) Run(run runFunc) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s.line.name, s.line.cmd, s.line.args = CommandName(cmd), cmd, args
		if err := s.switches(cmd); err != nil {
			return err
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

// CommandLine returns a tasklock command line to type. It repeats the caller's
// --owner and --store; only a password is left for the caller to fill in.
func (s *Session) CommandLine(args ...string) string {
	words := []string{"tasklock"}
	words = append(words, args...)
	var global []string
	if aboutItself(args) {
		return term.QuotedLine(words)
	}
	if s.StoreURL != "" {
		global = append(global, "--store", config.WithoutPassword(s.StoreURL))
	}
	if s.Owner != "" {
		global = append(global, "--owner", s.Owner)
	}
	if s.Timeout != "" {
		global = append(global, "--timeout", s.Timeout)
	}
	if s.UnsafeFS {
		global = append(global, "--allow-unsafe-fs")
	}
	end := slices.Index(words, "--")
	if end < 0 {
		end = len(words)
	}
	return term.QuotedLine(slices.Insert(words, end, global...))
}

// Switches are the flags of every command that were given to this one, for a further
// command on the same store. The owner is not among them: under a lease it has another.
func (s *Session) Switches() (words []string) {
	for name, on := range map[string]bool{"--json": s.JSON, "--quiet": s.Quiet, "--no-color": s.NoColor, "--allow-unsafe-fs": s.UnsafeFS} {
		if on {
			words = append(words, name)
		}
	}
	for name, value := range map[string]string{"--store": s.StoreURL, "--timeout": s.Timeout} {
		if value != "" {
			words = append(words, name, value)
		}
	}
	return words
}

// aboutItself reports whether a command asks no store and names no owner.
func aboutItself(args []string) bool {
	return args[0] == "version" || args[len(args)-1] == "--help" || len(args) > 1 && args[0] == "config" && args[1] == "set"
}

// switches reads the variables that mean flags. A given flag wins. Commands that
// programs call in their own form ignore them.
func (s *Session) switches(cmd *cobra.Command) error {
	if slices.Contains([]string{"hook", "mcp", "keeper"}, CommandName(cmd)) {
		return nil
	}
	for _, one := range [][2]string{{"TASKLOCK_JSON", "json"}, {"TASKLOCK_QUIET", "quiet"}, {"TASKLOCK_NO_WAIT", "no-wait"}} {
		text, f := s.Env(one[0]), cmd.Flags().Lookup(one[1])
		if text == "" || f != nil && f.Changed {
			continue
		}
		on, err := strconv.ParseBool(text)
		if err != nil {
			return Usagef("%s: must be true or false, not %q", one[0], term.Short(text, 40))
		}
		if f != nil {
			_ = f.Value.Set(strconv.FormatBool(on))
		}
	}
	return nil
}

// WantsJSON is for a command line of which not all flags could be read.
func (s *Session) WantsJSON() bool {
	on, _ := strconv.ParseBool(s.Env("TASKLOCK_JSON"))
	words := s.line.words
	if end := slices.Index(words, "--"); end >= 0 {
		words = words[:end]
	}
	return on || slices.Contains(words, "--json")
}
