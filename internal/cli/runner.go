package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func newRunnerCmd(a *App) *cobra.Command {
	return a.group("runner", "Work through the tasks, one after the other",
		newRunnerStartCmd(a), newRunnerListCmd(a), newRunnerStopCmd(a), newRunnerWakeupCmd(a))
}

type runnerStartOptions struct {
	name, section, label string
	idle                 string
	max, retries         int
	ttl, maxHold, grace  durationFlag
	noStdin, keepOutput  bool
}

func newRunnerStartCmd(a *App) *cobra.Command {
	o := &runnerStartOptions{}
	cmd := &cobra.Command{
		Use:   "start [flags] -- COMMAND [ARG...]",
		Short: "Run a command for one ready task after the other",
		Long: `Take the next task, run the command while the task is locked, and complete the
task if the command exits with 0. Otherwise the task goes back, --retries times,
and then is failed. A command that runs longer than --max-hold is stopped and
counts as failed. Then comes the next task; when nothing is ready the runner ends,
or with --idle wait stays.

The command gets the task as JSON on stdin, in TASKLOCK_TASK_ID,
TASKLOCK_TASK_TITLE, TASKLOCK_TASK_SECTION, TASKLOCK_ATTEMPT besides the
variables of run, and wherever an argument has {id}, {title}, {section},
{attempt} or {token}. stdout belongs to the command; the log goes to stderr, with
--json as one object a line.

In an exclusive section one runner works at a time and keeps it until nothing
there is ready. Ctrl+C, SIGTERM and runner stop let the task in hand go on for
--grace and then give it back; a second signal stops it at once.`,
		Example: `  tasklock runner start -- ./work.sh {id}
  tasklock runner start --section Backend --retries 2 --max-hold 30m --idle wait -- claude -p {title}`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash != 0 || len(args) == 0 {
				return usagef("needs a command after --: tasklock runner start -- COMMAND")
			}
			return nil
		},
		RunE: a.does(func(ctx context.Context, args []string) error { return o.run(ctx, a, args) }),
	}
	o.ttl = durationFlag{min: lease.MinTTL, max: lease.MaxTTL}
	o.maxHold = durationFlag{min: lease.MinTTL, max: 365 * 24 * time.Hour}
	o.grace = durationFlag{max: lease.MaxTTL}
	f := cmd.Flags()
	f.StringVar(&o.name, "id", "", "name of the runner; default: a random one")
	f.StringVar(&o.section, "section", "", "only tasks of this section")
	f.StringVar(&o.label, "label", "", "only tasks with this label")
	f.StringVar(&o.idle, "idle", "exit", "when nothing is ready: exit or wait")
	f.IntVar(&o.max, "max", 0, "end after so many runs of the command; 0: no bound")
	f.IntVar(&o.retries, "retries", 0, "a task that fails goes back so many times")
	f.Var(&o.ttl, "ttl", "a lock ends after so long without a sign of life")
	f.Var(&o.maxHold, "max-hold", "stop a command that runs longer")
	f.Var(&o.grace, "grace", "how long the task in hand may go on when the runner is to stop (default 10s)")
	f.BoolVar(&o.noStdin, "no-stdin", false, "no task on the command's stdin")
	f.BoolVar(&o.keepOutput, "keep-output", false, "the last lines of stdout, 1 KB at most, become the task's result")
	_ = cmd.RegisterFlagCompletionFunc("idle", cobra.FixedCompletions([]string{"exit", "wait"}, cobra.ShellCompDirectiveNoFileComp))
	return a.completeFlags(cmd)
}

func (o *runnerStartOptions) run(ctx context.Context, a *App, command []string) error {
	switch {
	case o.idle != "exit" && o.idle != "wait":
		return usagef("--idle: must be exit or wait, not %q", short(o.idle, 40))
	case o.max < 0:
		return usagef("--max: must not be negative")
	case o.retries < 0:
		return usagef("--retries: must not be negative")
	}
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	_, named := cfg.Store()
	st, err := a.Store(ctx, !named) // a name that is mistyped must not look like a list without tasks
	if err != nil {
		return err
	}
	if a.DryRun {
		return o.dryRun(ctx, a, st, command)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w := worker.Options{
		Owner: a.Identity().Owner, Name: o.name, Section: o.section, Label: o.label,
		Command: command, Dir: a.Dir, Env: a.environ(ctx), NoStdin: o.noStdin, Stdout: a.Stdout, Stderr: a.Stderr, KeepOutput: o.keepOutput,
		Max: o.max, Wait: o.idle == "wait", Retries: o.retries, TTL: o.ttl.value, MaxHold: o.maxHold.value,
		Grace: o.grace.value, Signals: true, Guardian: []string{self, guardianVerb}, Log: a.runnerLog,
	}
	if !o.ttl.given {
		w.TTL = a.cfg.Times().Attached
	}
	if o.grace.given && o.grace.value == 0 {
		w.Grace = time.Nanosecond // 0 is the default there
	}
	_, err = worker.Work(ctx, st, w)
	return err
}

// runnerLog prints one line of the log, on stderr: stdout is the command's.
func (a *App) runnerLog(e worker.LogEntry) {
	if !a.JSON {
		a.note("[%s] %s", e.Runner, e.Message)
		return
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if !a.Quiet && enc.Encode(e) == nil {
		_, _ = a.Stderr.Write(escape(b.Bytes()))
	}
}

func (o *runnerStartOptions) dryRun(ctx context.Context, a *App, st *store.Store, command []string) error {
	out, err := task.Next(ctx, st, task.NextRequest{Section: o.section, Label: o.label, Acquire: lease.AcquireRequest{Owner: a.Identity().Owner}})
	if err != nil {
		return err
	}
	return a.answer(map[string]any{"task": newTaskData(out.Task), "command": command}, func(p *printer) {
		p.line("%s %s first.", yellow.of("Would take"), taskName(out.Task))
		words := make([]string, len(command))
		for i, c := range command {
			words[i] = shellQuote(c)
		}
		p.line("Would run: %s", strings.Join(words, " "))
	})
}
