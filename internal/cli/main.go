// Package cli is the tasklock command: the table of commands, and one run of one
// of them.
//
// It has floors. Package term prints, config reads the configuration, view holds
// texts that several commands show, session is one run, hold acquires and keeps
// leases. Above them are the wings, with one file for each command, or for a family of
// small ones: an options struct, its flags, and one run. A wing imports no wing. The rules are in other
// packages; package problem says what an error means.
package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/agentcmd"
	"github.com/tasklock/tasklock/internal/cli/jobcmd"
	"github.com/tasklock/tasklock/internal/cli/leasecmd"
	"github.com/tasklock/tasklock/internal/cli/lockcmd"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/setupcmd"
	"github.com/tasklock/tasklock/internal/cli/taskcmd"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/runner"
)

// Main runs one command and returns its exit code.
func Main(args []string, process session.Process, program session.Program) (code int) {
	defer func() {
		if bug := recover(); bug != nil {
			fmt.Fprintln(process.Stderr, "Error: this is a bug in tasklock: "+term.Clean(fmt.Sprint(bug)))
			code = int(problem.Error)
		}
	}()
	if len(args) > 0 && args[0] == session.GuardianVerb {
		return runner.GuardianMain(args[1:])
	}
	args = spelledOut(args)
	s := session.New(process, program, args)
	root := root(s, args)
	root.SetArgs(args)
	cmd, err := root, helpForNothing(args)
	if err == nil {
		cmd, err = root.ExecuteContextC(context.Background())
	}
	defer s.RenewDue()
	return int(exitOf(s, session.CommandName(cmd), err))
}

// spelledOut turns --version and "help COMMAND" into what they are short for.
func spelledOut(args []string) []string {
	if i := slices.Index(args, "--version"); i >= 0 && !slices.ContainsFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") }) {
		args = append([]string{"version"}, slices.Delete(slices.Clone(args), i, i+1)...)
	}
	if len(args) > 1 && args[0] == "help" { // whose own answer to an unknown command is empty
		args = append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// exitOf is the exit code of a command, after its error was printed.
func exitOf(s *session.Session, command string, err error) problem.Exit {
	if err == nil {
		return problem.OK
	}
	if done := session.ExitError(0); errors.As(err, &done) {
		return problem.Exit(done)
	}
	if !s.Runs() { // the command line is wrong
		s.Misread(command)
		err = &session.UsageError{Text: inOurWords(err.Error())}
	}
	if usage := new(session.UsageError); errors.As(err, &usage) {
		s.JSON = s.JSON || s.WantsJSON() // flags after the bad one were not read
		if usage.Help == "" {
			usage.Help = strings.TrimSpace(command)
		}
	}
	exit := s.Refuse(err)
	if command == "hook" && exit == problem.Usage {
		return problem.Error // 2 denies an action, and nothing has judged one
	}
	return exit
}

// helpForNothing refuses to explain an unknown command: the help of its group
// would look like its own.
func helpForNothing(args []string) error {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	words := slices.DeleteFunc(slices.Clone(args[:end]), func(s string) bool { return s == "--help" || s == "-h" })
	if len(words) == end {
		return nil
	}
	root := root(new(session.Session), words)
	root.InitDefaultHelpCmd() // which Execute would add
	root.InitDefaultCompletionCmd(words...)
	cmd, rest, err := root.Find(words)
	if err != nil || !cmd.HasSubCommands() || cmd.Args == nil || cmd.ParseFlags(rest) != nil {
		return nil // a later message says it better
	}
	return cmd.Args(cmd, cmd.Flags().Args())
}

// inOurWords rewrites the library's message about flags that exclude each other.
func inOurWords(text string) string {
	if rest, ok := strings.CutPrefix(text, "if any flags in the group ["); ok {
		_, set, _ := strings.Cut(rest, "; [")
		if set, ok := strings.CutSuffix(set, "] were all set"); ok {
			return "--" + strings.Join(strings.Fields(set), " and --") + " do not go together"
		}
	}
	return text
}

// root is the tree of commands that args can mean.
func root(s *session.Session, args []string) *cobra.Command {
	root := &cobra.Command{
		Use:           "tasklock",
		Short:         "Keep concurrent workers from doing the same task twice",
		Long:          "tasklock keeps concurrent workers from doing the same task twice.\nA worker takes a lease on a key, works, and releases it; if it dies, the lease expires.\n\n" + session.ExitHelp,
		Args:          session.NoSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(s.Stdin)
	root.SetOut(s.Stdout)
	root.SetErr(s.Stderr)
	root.SetHelpFunc(printHelp)
	s.Flags.Register(root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: "locks", Title: "Locks:"}, &cobra.Group{ID: "tasks", Title: "Tasks:"}, &cobra.Group{ID: "jobs", Title: "Jobs:"}, &cobra.Group{ID: "look", Title: "Look around:"}, &cobra.Group{ID: "setup", Title: "Set up:"})
	root.SetHelpCommandGroupID("setup")
	root.SetCompletionCommandGroupID("setup")
	made := wanted(commands(), args)
	root.CompletionOptions.DisableDefaultCmd = len(made) == 1 // and it is another command
	for _, e := range made {
		cmd := e.make(s)
		cmd.GroupID = e.group
		root.AddCommand(cmd)
	}
	return root
}

// An entry is a command that has not been made yet.
type entry struct {
	group string
	names []string
	make  func(*session.Session) *cobra.Command
}

// commands is the table of all of them.
func commands() []entry {
	return []entry{
		{"locks", []string{"acquire"}, leasecmd.NewAcquire},
		{"locks", []string{"release"}, leasecmd.NewRelease},
		{"locks", []string{"heartbeat", "renew"}, leasecmd.NewHeartbeat},
		{"locks", []string{"check"}, leasecmd.NewCheck},
		{"locks", []string{"wait"}, leasecmd.NewWait},
		{"locks", []string{"run"}, leasecmd.NewRun},
		{"locks", []string{"land"}, leasecmd.NewLand},
		{"locks", []string{"break"}, leasecmd.NewBreak},
		{"locks", []string{"pools"}, lockcmd.NewPools},
		{"locks", []string{"update"}, leasecmd.NewUpdate},
		{"locks", []string{"cleanup"}, lockcmd.NewCleanup},
		{"locks", []string{"session"}, leasecmd.NewSession},
		{"tasks", []string{"tasks"}, taskcmd.NewTasks},
		{"tasks", []string{"next"}, taskcmd.NewNext},
		{"tasks", []string{"sections"}, taskcmd.NewSections},
		{"tasks", []string{"id"}, taskcmd.NewID},
		{"tasks", []string{"runner"}, taskcmd.NewRunner},
		{"jobs", []string{"jobs"}, jobcmd.NewJobs},
		{"jobs", []string{"scheduler"}, jobcmd.NewScheduler},
		{"look", []string{"list"}, lockcmd.NewList},
		{"look", []string{"show"}, lockcmd.NewShow},
		{"look", []string{"history"}, lockcmd.NewHistory},
		{"look", []string{"watch"}, lockcmd.NewWatch},
		{"look", []string{"whoami"}, setupcmd.NewWhoami},
		{"look", []string{"locks"}, func(s *session.Session) *cobra.Command { return lockcmd.NewLocks(s, leasecmd.NewRelease(s)) }},
		{"setup", []string{"init"}, setupcmd.NewInit},
		{"setup", []string{"config"}, setupcmd.NewConfig},
		{"setup", []string{"doctor"}, func(s *session.Session) *cobra.Command { return setupcmd.NewDoctor(s, agentcmd.CheckInstalled) }},
		{"setup", []string{"mcp"}, agentcmd.NewMCP},
		{"setup", []string{"serve"}, setupcmd.NewServe},
		{"setup", []string{"keys"}, setupcmd.NewKeys},
		{"setup", []string{"migrate"}, setupcmd.NewMigrate},
		{"setup", []string{"backup"}, setupcmd.NewBackup},
		{"setup", []string{"restore"}, setupcmd.NewRestore},
		{"setup", []string{"hook"}, agentcmd.NewHook},
		{"setup", []string{"guard"}, agentcmd.NewGuard},
		{"setup", []string{"agents"}, agentcmd.NewAgents},
		{"setup", []string{"guide"}, agentcmd.NewGuide},
		{"setup", []string{"version"}, setupcmd.NewVersion},
		{"setup", []string{"keeper"}, leasecmd.NewKeeper},
	}
}

// wanted is the one command that args begin with: making all of them takes
// longer than many of them run. If args begin otherwise, it is all.
func wanted(all []entry, args []string) []entry {
	for i, e := range all {
		if len(args) > 0 && slices.Contains(e.names, args[0]) {
			return all[i : i+1]
		}
	}
	return all
}
