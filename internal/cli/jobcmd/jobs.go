// Package jobcmd has the commands about jobs, and the scheduler.
package jobcmd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
)

func NewJobs(s *session.Session) *cobra.Command {
	return s.Group("jobs", "A table of jobs that every pod shares",
		newJobsAddCmd(s), newJobsApplyCmd(s), newJobsListCmd(s), newJobsShowCmd(s), newJobsPauseCmd(s), newJobsResumeCmd(s),
		newJobsTriggerCmd(s), newJobsRemoveCmd(s), newJobsHistoryCmd(s), newJobsNextCmd(s))
}

func oneJob(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return session.Usagef("takes the name of one job, got %d", len(args))
	}
	return nil
}

// gitPace says what to expect of a store that is a branch.
func gitPace(s *session.Session) {
	if cfg, err := s.Config(); err == nil {
		if url, _ := cfg.Store(); config.IsGit(url) {
			s.Warn("a git remote takes seconds for a commit and is asked now and then: jobs may start a minute late; fit for a few in an hour")
		}
	}
}

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

// applyJobs carries out an add or apply and shows what changed.
func applyJobs(ctx context.Context, s *session.Session, r schedule.ApplyRequest) error {
	id, err := s.Caller()
	if err != nil {
		return err
	}
	st, err := s.Store(ctx, true)
	if err != nil {
		return err
	}
	r.By, r.DryRun = id.Owner, s.DryRun
	out, err := schedule.Apply(ctx, st, r)
	if err != nil {
		return err
	}
	gitPace(s)
	there, err := schedule.Pods(ctx, st)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(out.Changes, func(c schedule.Change) bool { return c.Next != nil && c.Action != "removed" }) {
		defer whoFires(s, schedule.Able(there, r.Jobs...))
	}
	data := struct {
		schedule.ApplyResult
		Schedulers []schedule.Pod `json:"schedulers"`
	}{out, there}
	return s.Answer(data, func(p *term.Printer) {
		for _, c := range out.Changes {
			printChange(p, s, c)
		}
		if len(out.Changes) == 0 {
			p.Line("No jobs.")
		}
	})
}

func printChange(p *term.Printer, s *session.Session, c schedule.Change) {
	switch c.Action {
	case "added":
		p.Line("%s job %s, fires %s.", s.Did("Added", "Would add"), c.Name, fires(p, c.Next))
	case "removed":
		p.Line("%s job %s.", s.Did("Removed", "Would remove"), c.Name)
	case "changed":
		p.Line("%s job %s, fires %s:", s.Did("Changed", "Would change"), c.Name, fires(p, c.Next))
		for _, f := range c.Fields {
			p.Line("  %s: %s → %s", f.Name, orNone(term.Short(f.From, 120)), orNone(term.Short(f.To, 120)))
		}
	default:
		p.Line("Unchanged: job %s, fires %s.", c.Name, fires(p, c.Next))
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// fires tells when a job fires next.
func fires(p *term.Printer, next *time.Time) string {
	if next == nil {
		return "not while it is paused"
	}
	return p.When(*next)
}

func newJobsApplyCmd(s *session.Session) *cobra.Command {
	file, prune := "", false
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make the jobs as a file has them",
		Long: `Add the jobs of a YAML file and change those that differ: if anything is wrong
nothing is changed. - is stdin. --prune also removes the jobs that the file does not
have. What would change is shown with --dry-run.

A file may have 10,000 jobs. About a thousand are changed in one commit, all or none;
more take several commits, and if one of those fails the same command completes them.

  jobs:
    daily-digest:
      cron: "0 6 * * *"
      tz: Europe/Vienna
      command: [./digest, --all]

Further keys are the flags of jobs add: dir, env, ttl, max-run, jitter, misfire,
overlap, on-crash, max-attempts, keep, keep-for.`,
		Example: `  tasklock jobs apply -f jobs.yaml --prune --dry-run`,
		Args:    session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error {
			if file == "" {
				return session.Usagef("needs a file: tasklock jobs apply -f FILE")
			}
			data, err := s.ReadFile(file, schedule.MaxFile)
			if err != nil {
				return err
			}
			jobs, err := schedule.ParseFile(data)
			var wrong *schedule.FileError
			if errors.As(err, &wrong) {
				return session.Usagef("%s: %v", file, wrong)
			}
			if err != nil {
				return err
			}
			return applyJobs(ctx, s, schedule.ApplyRequest{Jobs: jobs, Prune: prune})
		}),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the `FILE`; - is stdin")
	cmd.Flags().BoolVar(&prune, "prune", false, "remove the jobs that the file does not have")
	return cmd
}

func newJobsPauseCmd(s *session.Session) *cobra.Command {
	return jobCmd(s, "pause", "Keep a job from firing until it is resumed", `Keep a job from firing until it is resumed. What runs goes on; trigger still works.`,
		func(ctx context.Context, st *store.Store, r schedule.ChangeRequest) error {
			out, err := schedule.Pause(ctx, st, r)
			if err != nil {
				return err
			}
			return s.Answer(out, func(p *term.Printer) { p.Line("%s job %s.", s.Did("Paused", "Would pause"), out.Name) })
		})
}

func newJobsResumeCmd(s *session.Session) *cobra.Command {
	return jobCmd(s, "resume", "Let a paused job fire again", `Let a paused job fire again, from now on. The times that passed meanwhile are not made up for.

With --force also one that does not fire because the record of what is due is damaged: it
is written anew. What was triggered by hand is forgotten; what runs is known by its fire time.`,
		func(ctx context.Context, st *store.Store, r schedule.ChangeRequest) error {
			out, err := schedule.Resume(ctx, st, r)
			if err != nil {
				return err
			}
			if job, err := schedule.Show(ctx, st, r.Name); err == nil {
				defer whoFires(s, job.Schedulers)
			}
			return s.Answer(out, func(p *term.Printer) {
				p.Line("%s job %s, fires %s.", s.Did("Resumed", "Would resume"), out.Name, fires(p, out.Next))
			})
		})
}

func newJobsTriggerCmd(s *session.Session) *cobra.Command {
	return jobCmd(s, "trigger", "Fire a job now", `Fire a job now, paused or not, besides its own times. If it is running already, its
--overlap decides. history shows what came of it.`,
		func(ctx context.Context, st *store.Store, r schedule.ChangeRequest) error {
			out, err := schedule.Trigger(ctx, st, r)
			if err != nil {
				return err
			}
			job, err := schedule.Show(ctx, st, r.Name)
			if err != nil {
				return err
			}
			defer whoFires(s, job.Schedulers)
			data := struct {
				schedule.TriggerResult
				Schedulers []schedule.Pod `json:"schedulers"`
			}{out, job.Schedulers}
			return s.Answer(data, func(p *term.Printer) { p.Line("%s %s.", s.Did("Triggered", "Would trigger"), out.RunID) })
		})
}

func newJobsRemoveCmd(s *session.Session) *cobra.Command {
	return jobCmd(s, "remove", "Remove a job", `Remove a job. What runs goes on; what is known about its fire times stays for a while.

With --force also one of which a record is damaged.`,
		func(ctx context.Context, st *store.Store, r schedule.ChangeRequest) error {
			if err := schedule.Remove(ctx, st, r); err != nil {
				return err
			}
			return s.Answer(map[string]string{"removed": r.Name}, func(p *term.Printer) {
				p.Line("%s job %s.", s.Did("Removed", "Would remove"), r.Name)
			})
		})
}

// jobCmd is a command that does something to one job.
func jobCmd(s *session.Session, name, brief, long string, do func(context.Context, *store.Store, schedule.ChangeRequest) error) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use: name + " NAME", Short: brief, Long: long, Args: oneJob, ValidArgsFunction: jobNames(s),
		RunE: s.Run(func(ctx context.Context, args []string) error {
			id, err := s.Caller()
			if err != nil {
				return err
			}
			st, err := s.Store(ctx, false)
			if err != nil {
				return err
			}
			return do(ctx, st, schedule.ChangeRequest{Name: args[0], By: id.Owner, DryRun: s.DryRun, Force: force})
		}),
	}
	if name == "resume" || name == "remove" {
		cmd.Flags().BoolVar(&force, "force", false, "also where a record of the job is damaged")
	}
	return cmd
}

// jobNames completes the name of a job.
func jobNames(s *session.Session) cobra.CompletionFunc {
	return s.Completion(1, func(ctx context.Context, st *store.Store) (names []string, err error) {
		out, err := schedule.List(ctx, st)
		for _, j := range out.Jobs {
			names = append(names, j.Name)
		}
		return names, err
	})
}
