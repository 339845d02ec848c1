package jobcmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/schedule"
)

type jobsAddOptions struct {
	job                          schedule.Job
	ttl, maxRun, jitter, keepFor session.DurationFlag
	misfire, overlap, onCrash    string
	env                          []string
}

func newJobsAddCmd(s *session.Session) *cobra.Command {
	o := &jobsAddOptions{}
	cmd := &cobra.Command{
		Use:   "add NAME --cron EXPR [flags] -- COMMAND [ARG...]",
		Short: "Add a job",
		Long: `Add a job that fires at the times of a cron expression: five fields (minute hour
day month weekday), six with seconds first, @daily and its like, or @every 10s.
Times are those of --tz, UTC if it is not given. A local time that a clock change
leaves out fires right after it; one that comes twice fires once.

Every tasklock scheduler on the same store takes part, and one of them runs each
fire time. --misfire says what becomes of times at which none was there, --overlap
of a time while the run before it goes on, --on-crash of a run whose pod died.

The command finds TASKLOCK_RUN_ID, TASKLOCK_FIRE_TIME, TASKLOCK_ATTEMPT and
TASKLOCK_TOKEN in its environment.`,
		Example: `  tasklock jobs add daily-digest --cron "0 6 * * *" --tz Europe/Vienna -- ./digest
  tasklock jobs add probe --cron "@every 10s" --max-run 8s -- ./probe --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash < 0 || dash == len(args):
				return session.Usagef("needs a command after --: tasklock jobs add NAME --cron EXPR -- COMMAND")
			case dash != 1:
				return session.Usagef("takes the name of one job before --, got %d", dash)
			}
			return nil
		},
		RunE: s.Run(func(ctx context.Context, args []string) error { return o.run(ctx, s, args[0], args[1:]) }),
	}
	o.flags(cmd)
	return cmd
}

func (o *jobsAddOptions) flags(cmd *cobra.Command) {
	o.ttl = session.DurationFlag{Min: lease.MinTTL, Max: lease.MaxTTL}
	o.maxRun = session.DurationFlag{Min: lease.MinTTL, Max: 365 * 24 * time.Hour}
	o.jitter = session.DurationFlag{Max: 24 * time.Hour}
	o.keepFor = session.DurationFlag{Min: time.Minute, Max: 10 * 365 * 24 * time.Hour}
	f := cmd.Flags()
	f.StringVar(&o.job.Cron, "cron", "", "when it fires")
	f.StringVar(&o.job.Zone, "tz", "", "time zone of the expression, like Europe/Vienna (default UTC)")
	f.StringVar(&o.job.Dir, "dir", "", "folder of the command (default: that of the scheduler)")
	f.StringArrayVar(&o.env, "env", nil, "variable of the command, `K=V`; repeat for more")
	f.Var(&o.ttl, "ttl", "a pod that is silent for so long has died (default 5m)")
	f.Var(&o.maxRun, "max-run", "stop a command that runs longer")
	f.Var(&o.jitter, "jitter", "spread starts over so long, at most until the next fire time")
	f.StringVar(&o.misfire, "misfire", "skip", "times at which no pod was there: skip, once or all (in their order)")
	f.StringVar(&o.overlap, "overlap", "skip", "a time while the run before goes on: skip, queue or allow")
	f.StringVar(&o.onCrash, "on-crash", "lost", "a run whose pod died: lost or retry")
	f.IntVar(&o.job.MaxAttempts, "max-attempts", 3, "with --on-crash retry: start it so many times at most")
	f.IntVar(&o.job.Keep, "keep", 100, "keep so many records of fire times")
	f.Var(&o.keepFor, "keep-for", "and for so long (default 30d)")
	_ = cmd.MarkFlagRequired("cron")
	for name, values := range map[string][]string{"misfire": {"skip", "once", "all"}, "overlap": {"skip", "queue", "allow"}, "on-crash": {"lost", "retry"}} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

func (o *jobsAddOptions) run(ctx context.Context, s *session.Session, name string, command []string) error {
	j := o.job
	j.Name, j.Command = name, command
	j.TTL, j.MaxRun, j.Jitter, j.KeepFor = o.ttl.Value, o.maxRun.Value, o.jitter.Value, o.keepFor.Value
	j.Misfire, j.Overlap, j.OnCrash = schedule.Misfire(o.misfire), schedule.Overlap(o.overlap), schedule.OnCrash(o.onCrash)
	switch {
	case j.MaxAttempts < 1:
		return session.Usagef("--max-attempts: must be between 1 and 100")
	case j.Keep < 1:
		return session.Usagef("--keep: must be between 1 and 10000")
	}
	for _, kv := range o.env {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return session.Usagef("--env: needs NAME=VALUE, got %q", term.Short(kv, 40))
		}
		if j.Env == nil {
			j.Env = map[string]string{}
		}
		j.Env[k] = v
	}
	return applyJobs(ctx, s, schedule.ApplyRequest{Jobs: []schedule.Job{j}, New: true})
}
