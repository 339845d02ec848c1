package jobcmd

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/schedule"
)

type schedulerOptions struct {
	pod        string
	maxRunning int
	grace      session.DurationFlag
	level      string
	once       bool
}

func NewScheduler(s *session.Session) *cobra.Command {
	o := &schedulerOptions{}
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Fire the jobs; run it on every pod",
		Long: `Fire the jobs of the store. Run it on as many pods as you like: one of them claims
each fire time, runs the command under the job's lock, and renews the lock.

It sees added and changed jobs at once. If a pod dies, another goes on. The log goes
to stderr, with --json as one object a line; the output of commands goes to stdout
and stderr, under the name of their job. After SIGTERM or Ctrl+C it claims nothing
more and lets commands finish for --grace; a second signal stops them at once.`,
		Example: `  tasklock scheduler
  tasklock --store "$DATABASE_URL" scheduler --grace 5m --json`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return o.run(ctx, s) }),
	}
	o.grace = session.DurationFlag{Max: lease.MaxTTL}
	f := cmd.Flags()
	f.StringVar(&o.pod, "pod", "", "name of this pod in records and log (default: hostname-pid-random)")
	f.IntVar(&o.maxRunning, "max-running", 32, "run at most this many commands at a time")
	f.Var(&o.grace, "grace", "how long commands may go on after stop (default 30s)")
	f.BoolVar(&o.once, "once", false, "fire what is due now, wait for it, and end")
	f.StringVar(&o.level, "log-level", "debug", "debug, or info, which leaves out what other pods do")
	_ = cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions([]string{"debug", "info"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *schedulerOptions) run(ctx context.Context, s *session.Session) error {
	switch {
	case o.maxRunning < 1:
		return session.Usagef("--max-running: must be positive")
	case o.level != "debug" && o.level != "info":
		return session.Usagef("--log-level: must be debug or info, not %q", term.Short(o.level, 40))
	}
	st, err := s.Store(ctx, false) // it only does what others put there: a name that is mistyped must not look like a store without jobs
	if err != nil {
		return err
	}
	if s.DryRun {
		return listJobs(ctx, s, st)
	}
	gitPace(s)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	opt := &schedule.Options{
		Pod: o.pod, MaxRunning: o.maxRunning, Grace: o.grace.Value, Signals: true, Once: o.once, Log: o.log(s),
		Commands: &schedule.Commands{Dir: s.Dir, Env: s.LeaseEnviron(ctx), Stdout: s.Stdout, Stderr: s.Stderr, Guardian: []string{self, session.GuardianVerb}},
	}
	if o.grace.Given && o.grace.Value == 0 {
		opt.Grace = 1 // 0 is the default there
	}
	return schedule.New(st).Run(ctx, opt)
}

// log prints one line for each event, on stderr.
func (o *schedulerOptions) log(s *session.Session) func(schedule.LogEntry) {
	return func(e schedule.LogEntry) {
		if o.level == "info" && e.Level == schedule.LevelDebug {
			return
		}
		s.Log(e, "%s %s - %s", e.Time.Format("2006-01-02T15:04:05.000Z"), string(e.Level), e.Message)
	}
}
