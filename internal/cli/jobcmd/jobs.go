// Package jobcmd has the commands about jobs, and the scheduler. Each New
// function makes the command of its name.
package jobcmd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
)

func NewJobs(s *session.Session) *cobra.Command {
	cmds := []*cobra.Command{newJobsAddCmd(s), newJobsApplyCmd(s), newJobsListCmd(s), newJobsShowCmd(s), newJobsHistoryCmd(s), newJobsNextCmd(s)}
	for _, c := range changes {
		cmds = append(cmds, c.cmd(s))
	}
	return session.Group("jobs", "Manage jobs that fire on a schedule", cmds...)
}

var oneJob = session.One("job")

// gitPace warns about jobs in a git store.
func gitPace(s *session.Session) {
	if config.IsGit(s.URL()) {
		s.Warn("a commit to a git remote takes seconds: jobs may start a minute late; use it for a few jobs an hour")
	}
}

// fires says when a job fires next.
func fires(p *term.Printer, next *time.Time) string {
	if next == nil {
		return "not while it is paused"
	}
	return p.When(*next)
}

// jobNames completes the name of a job.
func jobNames(s *session.Session) cobra.CompletionFunc {
	return s.Completion(1, func(ctx context.Context, st *store.Store) ([]string, error) {
		out, err := schedule.List(ctx, st)
		return term.Each(out.Jobs, jobName), err
	})
}

func jobName(j schedule.Info) string { return j.Name }

// whoFires warns if no scheduler runs that fires a job.
func whoFires(s *session.Session, all []schedule.Pod) {
	if view.SchedulerNames(all) == "" {
		s.Warn("no scheduler is running: %s", s.CommandLine("scheduler"))
	}
}

func jobState(j schedule.Info) term.Text {
	switch {
	case j.Damaged != nil:
		return term.Red.Of("damaged")
	case len(j.Running) > 0:
		return term.Green.Of("running")
	case j.Paused:
		return term.Yellow.Of("paused")
	case j.Waiting:
		return term.Yellow.Of("waiting")
	}
	return term.Normal.Of("idle")
}

// command is a job's command as a shell would read it.
func command(j schedule.Job) string {
	switch {
	case j.Cron == "": // it cannot be read
		return ""
	case len(j.Command) == 0:
		return "(a handler)"
	}
	return term.QuotedLine(j.Command)
}

func newJobsListCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the jobs and when they fire next",
		Long: `List the jobs, when they fire next, and where they run.

In a pipe, tabs separate the fields: name, state, expression, zone, next fire time,
pods that run it, command, pool. --quiet prints only the names.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error { return listJobs(ctx, s, st) }),
	}
}

func listJobs(ctx context.Context, s *session.Session, st *store.Store) error {
	out, err := schedule.List(ctx, st)
	if err != nil {
		return err
	}
	if fires := slices.ContainsFunc(out.Jobs, func(j schedule.Info) bool { return !j.Paused }); fires && !s.DryRun {
		defer whoFires(s, out.Schedulers)
	}
	var bad []*schedule.DamagedError
	for _, j := range out.Jobs {
		if j.Damaged != nil {
			bad = append(bad, j.Damaged)
		}
	}
	if s.Quiet && !s.JSON {
		return errors.Join(s.AnswerNames(out, term.Each(out.Jobs, jobName), nil), allDamaged(bad))
	}
	return s.Partly(out, allDamaged(bad), func(p *term.Printer) {
		printJobs(p, out.Jobs)
		if names := view.SchedulerNames(out.Schedulers); p.Wide && len(out.Jobs) > 0 && names != "" {
			p.Line("Schedulers: %s", names)
		}
	})
}

// allDamaged is one error for several, nil for none.
func allDamaged(list []*schedule.DamagedError) error {
	var all []error
	for _, e := range list {
		all = append(all, e)
	}
	return errors.Join(all...)
}

func printJobs(p *term.Printer, list []schedule.Info) {
	var rows [][]term.Text
	for _, j := range list {
		next := ""
		if j.Next != nil {
			next = term.Stamp(*j.Next)
			if p.Wide {
				next = p.Relative(*j.Next)
			}
		}
		pods := term.Each(j.Running, func(r schedule.Run) string { return r.Pod })
		rows = append(rows, term.Row(
			term.Strong.Of(j.Name), jobState(j), j.Cron, j.Zone, next, strings.Join(pods, " "), term.Faint.Of(term.Short(command(j.Job), 80)), j.Pool,
		))
	}
	p.List("No jobs.", []string{"JOB", "STATE", "CRON", "ZONE", "NEXT", "RUNS ON", "COMMAND", "POOL"}, rows)
}

func newJobsShowCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a job with all its settings", Args: oneJob, ValidArgsFunction: jobNames(s),
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, args []string) error {
			j, err := schedule.Show(ctx, st, args[0])
			if err == nil && (!j.Paused || j.Triggered > 0) {
				defer whoFires(s, j.Schedulers)
			}
			return session.Reply(s, printJob)(j, err)
		}),
	}
}

func printJob(p *term.Printer, j schedule.Info) {
	state := jobState(j)
	p.Line("%s: %s", term.Strong.Of(j.Name), state)
	p.Line("  cron: %s (%s)", j.Cron, j.Zone)
	p.Line("  next: %s", fires(p, j.Next))
	if names := view.SchedulerNames(j.Schedulers); names != "" {
		p.Line("  schedulers: %s", names)
	}
	p.Line("  command: %s", command(j.Job))
	if j.Dir != "" {
		p.Line("  dir: %s", j.Dir)
	}
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		p.Line("  env: %s=%s", name, j.Env[name])
	}
	if j.Pool != "" {
		p.Line("  pool: %s", j.Pool)
	}
	p.Line("  ttl: %s", term.Exact(j.TTL))
	if j.MaxRun > 0 {
		p.Line("  max-run: %s", term.Exact(j.MaxRun))
	}
	if j.Jitter > 0 {
		p.Line("  jitter: %s", term.Exact(j.Jitter))
	}
	p.Line("  misfire: %s, overlap: %s, on-crash: %s, max-attempts: %d", string(j.Misfire), string(j.Overlap), string(j.OnCrash), j.MaxAttempts)
	p.Line("  keeps: %d records, %s", j.Keep, term.Exact(j.KeepFor))
	if j.Triggered > 0 {
		p.Line("  triggered: %d wait for a pod", j.Triggered)
	}
	for _, r := range j.Running {
		p.Line("  running: %s on %s, attempt %d", term.Stamp(r.At), r.Pod, r.Attempt)
	}
	if j.Last != nil {
		p.Line("  last: %s %s", term.Stamp(j.Last.At), told(*j.Last))
	}
}
