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
		Long: `Add a job that fires at the times of a cron expression.

The expression has five fields (minute hour day month weekday), six with seconds
first, or is @daily and its like, or @every 10s. A local time that a clock change
leaves out fires right after it; one that comes twice fires once.

Every tasklock scheduler on the same store takes part, and one of them runs each
fire time. The command finds TASKLOCK_RUN_ID, TASKLOCK_FIRE_TIME, TASKLOCK_ATTEMPT
and TASKLOCK_TOKEN in its environment, with --pool also TASKLOCK_SLOT. If no slot is
free, the fire time waits for one (see tasklock pools).`,
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
	f.StringVar(&o.job.Cron, "cron", "", "the cron expression")
	f.StringVar(&o.job.Zone, "tz", "", "time zone of the expression, like Europe/Vienna (default UTC)")
	f.StringVar(&o.job.Dir, "dir", "", "folder of the command (default: the scheduler's)")
	f.StringArrayVar(&o.env, "env", nil, "variable of the command, `K=V`; repeat for more")
	f.StringVar(&o.job.Pool, "pool", "", "start a run only with a slot of this `POOL`")
	f.Var(&o.ttl, "ttl", "a pod without a heartbeat for this long is dead (default 5m)")
	f.Var(&o.maxRun, "max-run", "stop a command that runs longer (default: no limit)")
	f.Var(&o.jitter, "jitter", "delay each start by up to this (default: no delay)")
	f.StringVar(&o.misfire, "misfire", "skip", "missed fire times: skip, once (the newest) or all (in order)")
	f.StringVar(&o.overlap, "overlap", "skip", "a fire time during the previous run: skip, queue or allow")
	f.StringVar(&o.onCrash, "on-crash", "lost", "a run whose pod died: lost or retry")
	f.IntVar(&o.job.MaxAttempts, "max-attempts", 3, "with --on-crash retry: start it at most this many times")
	f.IntVar(&o.job.Keep, "keep", 100, "keep this many records of fire times")
	f.Var(&o.keepFor, "keep-for", "keep records for this long (default 30d)")
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
