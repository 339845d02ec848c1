package taskcmd

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

type runnerStartOptions struct {
	name, section, label, pool string
	idle                       string
	max, retries               int
	ttl, maxHold, grace        session.DurationFlag
	noStdin, keepOutput        bool
}

func newRunnerStartCmd(s *session.Session) *cobra.Command {
	o := &runnerStartOptions{}
	cmd := &cobra.Command{
		Use:   "start [flags] -- COMMAND [ARG...]",
		Short: "Run a command for one ready task after the other",
		Long: `Claim the next task, run the command while the task is locked, and complete the task
if the command exits with 0. Then take the next task.

If the command fails, the task becomes pending again, --retries times, and then
fails. A command that runs longer than --max-hold is stopped and has failed. When no
task is ready, the runner ends, or stays with --idle wait.

The command gets the task as JSON on stdin, in TASKLOCK_TASK_ID,
TASKLOCK_TASK_TITLE, TASKLOCK_TASK_SECTION, TASKLOCK_ATTEMPT and the variables of
run, and in arguments with {id}, {title}, {section}, {attempt} or {token}. stdout
belongs to the command; the log goes to stderr, with --json as one object a line.

One runner at a time works in an exclusive section, and keeps it until no task there
is ready. With --pool a command runs only with a slot of that pool (see tasklock
pools), whose number is in TASKLOCK_SLOT. After Ctrl+C, SIGTERM or runner stop the current command may go on for
--grace; then its task becomes pending again. A second signal stops it at once.`,
		Example: `  tasklock runner start -- ./work.sh {id}
  tasklock runner start --section Backend --retries 2 --max-hold 30m --idle wait -- claude -p {title}`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash != 0 || len(args) == 0 {
				return session.Usagef("needs a command after --: tasklock runner start -- COMMAND")
			}
			return nil
		},
		RunE: s.Run(func(ctx context.Context, args []string) error { return o.run(ctx, s, args) }),
	}
	o.ttl = session.DurationFlag{Min: lease.MinTTL, Max: lease.MaxTTL}
	o.maxHold = session.DurationFlag{Min: lease.MinTTL, Max: 365 * 24 * time.Hour}
	o.grace = session.DurationFlag{Max: lease.MaxTTL}
	f := cmd.Flags()
	f.StringVar(&o.name, "id", "", "name of the runner (default: random)")
	f.StringVar(&o.section, "section", "", "only tasks of this section")
	f.StringVar(&o.label, "label", "", "only tasks with this label")
	f.StringVar(&o.pool, "pool", "", "run the command only with a slot of this `POOL`")
	f.StringVar(&o.idle, "idle", "exit", "when nothing is ready: exit or wait")
	f.IntVar(&o.max, "max", 0, "end after this many runs of the command; 0: no limit")
	f.IntVar(&o.retries, "retries", 0, "try a failed task again this many times")
	f.Var(&o.ttl, "ttl", "expire after this long without a heartbeat (default 5m; git 1h)")
	f.Var(&o.maxHold, "max-hold", "stop a command that runs longer (default: no limit)")
	f.Var(&o.grace, "grace", "how long the current command may go on after stop (default 10s)")
	f.BoolVar(&o.noStdin, "no-stdin", false, "do not put the task on the command's stdin")
	f.BoolVar(&o.keepOutput, "keep-output", false, "keep the last lines of stdout, at most 1 KB, as the task's result")
	_ = cmd.RegisterFlagCompletionFunc("idle", cobra.FixedCompletions([]string{"exit", "wait"}, cobra.ShellCompDirectiveNoFileComp))
	return completeFlags(s, cmd)
}

func (o *runnerStartOptions) run(ctx context.Context, s *session.Session, command []string) error {
	switch {
	case o.idle != "exit" && o.idle != "wait":
		return session.Usagef("--idle: must be exit or wait, not %q", term.Short(o.idle, 40))
	case o.max < 0:
		return session.Usagef("--max: must not be negative")
	case o.retries < 0:
		return session.Usagef("--retries: must not be negative")
	}
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	_, named := cfg.Store()
	st, err := s.Store(ctx, !named) // a name that is mistyped must not look like a list without tasks
	if err != nil {
		return err
	}
	if s.DryRun {
		return o.dryRun(ctx, s, st, command)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w := worker.Options{
		Owner: s.Identity().Owner, Name: o.name, Section: o.section, Label: o.label, Pool: o.pool,
		Command: command, Dir: s.Dir, Env: s.LeaseEnviron(ctx), NoStdin: o.noStdin, Stdout: s.Stdout, Stderr: s.Stderr, KeepOutput: o.keepOutput,
		Max: o.max, Wait: o.idle == "wait", Retries: o.retries, TTL: o.ttl.Value, MaxHold: o.maxHold.Value,
		Grace: o.grace.Value, Signals: true, Guardian: []string{self, session.GuardianVerb}, Log: func(e worker.LogEntry) { s.Log(e, "[%s] %s", e.Runner, e.Message) },
	}
	if !o.ttl.Given {
		w.TTL = cfg.Times().Attached
	}
	if o.grace.Given && o.grace.Value == 0 {
		w.Grace = time.Nanosecond // 0 is the default there
	}
	_, err = worker.Work(ctx, st, w)
	return err
}

func (o *runnerStartOptions) dryRun(ctx context.Context, s *session.Session, st *store.Store, command []string) error {
	if o.pool != "" {
		if _, err := lease.CheckPool(ctx, st, o.pool); err != nil {
			return err
		}
	}
	out, err := task.Next(ctx, st, task.NextRequest{Section: o.section, Label: o.label, Acquire: lease.AcquireRequest{Owner: s.Identity().Owner}})
	if err != nil {
		return err
	}
	return s.Answer(map[string]any{"task": newTaskData(out.Task), "command": command}, func(p *term.Printer) {
		p.Line("%s %s first.", term.Yellow.Of("Would take"), taskName(out.Task))
		p.Line("Would run: %s", term.QuotedLine(command))
	})
}
