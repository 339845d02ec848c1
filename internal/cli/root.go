package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/runner"
)

// Main runs one command and returns its exit code.
func Main(args []string, a App) (code int) {
	defer func() {
		if bug := recover(); bug != nil {
			fmt.Fprintln(a.Stderr, "Error: this is a bug in tasklock: "+clean(fmt.Sprint(bug)))
			code = int(problem.Error)
		}
	}()
	if len(args) > 0 && args[0] == guardianVerb {
		return runner.GuardianMain(args[1:])
	}
	if i := slices.Index(args, "--version"); i >= 0 && !slices.ContainsFunc(args, func(s string) bool { return !strings.HasPrefix(s, "-") }) {
		args = append([]string{"version"}, slices.Delete(slices.Clone(args), i, i+1)...)
	}
	if len(args) > 1 && args[0] == "help" { // which has no word for what there is not
		args = append(slices.Clone(args[1:]), "--help")
	}
	a.words, a.started = args, time.Now()
	root := a.root(args)
	root.SetArgs(args)
	cmd, err := root, helpForNothing(args)
	if err == nil {
		cmd, err = root.ExecuteContextC(context.Background())
	}
	defer a.signOfLife()
	if err == nil {
		return int(problem.OK)
	}
	if answer := new(exitHook); errors.As(err, &answer) {
		return answer.exit
	}
	usage := new(usageError)
	if a.command == "" { // nothing has run: whatever it is, the command line is wrong
		a.command = commandName(cmd)
		err = &usageError{text: inOurWords(err.Error())}
	}
	if errors.As(err, &usage) {
		a.JSON = a.JSON || a.wantsJSON(args) // flags after the bad one were not read
		if usage.help == "" {
			usage.help = strings.TrimSpace(commandName(cmd))
		}
	}
	code = int(a.refuse(err))
	if commandName(cmd) == "hook" && code == int(problem.Usage) {
		code = int(problem.Error) // 2 denies an action, and nothing has judged one
	}
	return code
}

// helpForNothing refuses to explain a command that there is not: whoever asks for
// help on a mistyped one takes what is shown for its own.
func helpForNothing(args []string) error {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	words := slices.DeleteFunc(slices.Clone(args[:end]), func(s string) bool { return s == "--help" || s == "-h" })
	if len(words) == end {
		return nil
	}
	root := new(App).root(words)
	root.InitDefaultHelpCmd() // which Execute would add
	root.InitDefaultCompletionCmd(words...)
	cmd, rest, err := root.Find(words)
	if err != nil || !cmd.HasSubCommands() || cmd.Args == nil || cmd.ParseFlags(rest) != nil {
		return nil // said later, in better words
	}
	return cmd.Args(cmd, cmd.Flags().Args())
}

// inOurWords puts what the library says about flags that exclude each other.
func inOurWords(text string) string {
	if rest, ok := strings.CutPrefix(text, "if any flags in the group ["); ok {
		_, set, _ := strings.Cut(rest, "; [")
		if set, ok := strings.CutSuffix(set, "] were all set"); ok {
			return "--" + strings.Join(strings.Fields(set), " and --") + " do not go together"
		}
	}
	return text
}

func asksForJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json")
}

// commandName is the path of a command without the program: "locks list".
func commandName(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return name
}

// root is the tree of commands, as far as args can mean them.
func (a *App) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:           "tasklock",
		Short:         "Keep concurrent workers from doing the same task twice",
		Long:          "tasklock keeps concurrent workers from doing the same task twice.\nA worker takes a lease on a key, works, and releases it; if it dies, the lease ends by itself.\n\n" + exitHelp,
		Args:          a.noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	f := root.PersistentFlags()
	f.BoolVar(&a.JSON, "json", false, "print JSON (also: TASKLOCK_JSON)")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "print nothing but errors (also: TASKLOCK_QUIET)")
	f.BoolVar(&a.DryRun, "dry-run", false, "say what would happen, change nothing")
	f.BoolVar(&a.NoColor, "no-color", false, "no colour (also: NO_COLOR)")
	f.StringVar(&a.Owner, "owner", "", "who is asking (also: TASKLOCK_OWNER; see whoami)")
	f.StringVar(&a.StoreURL, "store", "", "where the records are (also: TASKLOCK_STORE)")
	f.StringVar(&a.Timeout, "timeout", "", "how long to wait for a server that does not answer (also: TASKLOCK_STORE_TIMEOUT)")
	f.BoolVar(&a.UnsafeFS, "allow-unsafe-fs", false, "accept a file system whose locks cannot be trusted")
	root.AddGroup(&cobra.Group{ID: "locks", Title: "Locks:"}, &cobra.Group{ID: "tasks", Title: "Tasks:"}, &cobra.Group{ID: "jobs", Title: "Jobs:"}, &cobra.Group{ID: "look", Title: "Look around:"}, &cobra.Group{ID: "setup", Title: "Set up:"})
	root.SetHelpCommandGroupID("setup")
	root.SetCompletionCommandGroupID("setup")
	for _, c := range wanted(commands(), args) {
		cmd := c.make(a)
		cmd.GroupID = c.group
		root.AddCommand(cmd)
	}
	return root
}

// A verb is a command that has not been made yet.
type verb struct {
	group string
	names []string
	make  func(*App) *cobra.Command
}

func commands() []verb {
	return []verb{
		{"locks", []string{"acquire"}, newAcquireCmd},
		{"locks", []string{"release"}, newReleaseCmd},
		{"locks", []string{"heartbeat", "renew"}, newHeartbeatCmd},
		{"locks", []string{"check"}, newCheckCmd},
		{"locks", []string{"wait"}, newWaitCmd},
		{"locks", []string{"run"}, newRunCmd},
		{"locks", []string{"break"}, newBreakCmd},
		{"locks", []string{"update"}, newUpdateCmd},
		{"locks", []string{"cleanup"}, newCleanupCmd},
		{"locks", []string{"session"}, newSessionCmd},
		{"tasks", []string{"tasks"}, newTasksCmd},
		{"tasks", []string{"next"}, newNextCmd},
		{"tasks", []string{"sections"}, newSectionsCmd},
		{"tasks", []string{"id"}, newIDCmd},
		{"tasks", []string{"runner"}, newRunnerCmd},
		{"jobs", []string{"jobs"}, newJobsCmd},
		{"jobs", []string{"scheduler"}, newSchedulerCmd},
		{"look", []string{"list"}, newListCmd},
		{"look", []string{"show"}, newShowCmd},
		{"look", []string{"history"}, newHistoryCmd},
		{"look", []string{"watch"}, newWatchCmd},
		{"look", []string{"whoami"}, newWhoamiCmd},
		{"look", []string{"locks"}, newLocksCmd},
		{"setup", []string{"init"}, newInitCmd},
		{"setup", []string{"config"}, newConfigCmd},
		{"setup", []string{"doctor"}, newDoctorCmd},
		{"setup", []string{"mcp"}, newMCPCmd},
		{"setup", []string{"migrate"}, newMigrateCmd},
		{"setup", []string{"backup"}, newBackupCmd},
		{"setup", []string{"restore"}, newRestoreCmd},
		{"setup", []string{"hook"}, newHookCmd},
		{"setup", []string{"guard"}, newGuardCmd},
		{"setup", []string{"agents"}, newAgentsCmd},
		{"setup", []string{"guide"}, newGuideCmd},
		{"setup", []string{"version"}, newVersionCmd},
		{"setup", []string{"keeper"}, newKeeperCmd},
	}
}

// wanted is the one command that args begin with: making all of them takes
// longer than many of them run. If args begin otherwise, it is all.
func wanted(all []verb, args []string) []verb {
	for i, v := range all {
		if len(args) > 0 && slices.Contains(v.names, args[0]) {
			return all[i : i+1]
		}
	}
	return all
}

// group is a command that only has subcommands.
func (a *App) group(use, short string, cmds ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: a.noSuchCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	g.AddCommand(cmds...)
	return g
}

// noSuchCommand is the argument check of commands that take only subcommands.
func (a *App) noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", short(args[0], 60), cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return &usageError{text: text}
}

// runFunc is what a command does once its flags are read.
type runFunc func(ctx context.Context, args []string) error

// does makes a RunE: it notes which command runs with which flags.
func (a *App) does(run runFunc) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.command, a.args, a.keyArgs = commandName(cmd), args, args
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			a.keyArgs = args[:dash:dash]
		}
		a.flags = map[string]string{}
		if err := a.switches(cmd); err != nil {
			return err
		}
		for _, name := range []string{"store", "owner", "allow-unsafe-fs", "timeout", "lease"} {
			if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
				a.flags[name] = f.Value.String()
			}
		}
		for {
			err := run(cmd.Context(), args)
			if !a.asksAgain(cmd.Context(), err) {
				return err
			}
		}
	}
}

// Argument checks; what they refuse is a usage error.

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("takes no arguments, got %q", short(args[0], 60))
	}
	return nil
}

func oneKey(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("takes one key, got %d", len(args))
	}
	return nil
}

func someKeys(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("needs at least one key")
	}
	return nil
}

func atMostOneKey(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("takes at most one key, got %d", len(args))
	}
	return nil
}
