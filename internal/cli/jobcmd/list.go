package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/schedule"
)

func newJobsListCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the jobs and when they fire next",
		Long: `List the jobs, when they fire next, and where they run.

In a pipe the fields are separated by tabs: name, state, expression, zone, next fire
time, pods that run it, command. --quiet prints the names alone.`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return listJobs(ctx, s) }),
	}
}

func listJobs(ctx context.Context, s *session.Session) error {
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
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
		p := s.Printer()
		for _, j := range out.Jobs {
			p.Line("%s", j.Name)
		}
		return errors.Join(p.Flush(), allDamaged(bad))
	}
	return s.Partly(out, allDamaged(bad), func(p *term.Printer) {
		if len(out.Jobs) == 0 && p.Wide {
			p.Line("No jobs.")
			return
		}
		printJobs(p, out.Jobs)
		if names := view.SchedulerNames(out.Schedulers); p.Wide && names != "" {
			p.Line("Schedulers: %s", names)
		}
	})
}

// whoFires warns if no scheduler is there to fire a job.
func whoFires(s *session.Session, all []schedule.Pod) {
	if view.SchedulerNames(all) == "" {
		s.Warn("no scheduler is running: %s", s.CommandLine("scheduler"))
	}
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
		var pods []string
		for _, r := range j.Running {
			pods = append(pods, r.Pod)
		}
		rows = append(rows, term.Row(
			term.Strong.Of(j.Name), jobState(j), j.Cron, j.Zone, next, strings.Join(pods, " "), term.Faint.Of(term.Short(command(j.Job), 80)),
		))
	}
	p.Table([]string{"JOB", "STATE", "CRON", "ZONE", "NEXT", "RUNS ON", "COMMAND"}, rows)
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
	words := make([]string, len(j.Command))
	for i, w := range j.Command {
		words[i] = term.ShellQuote(w)
	}
	return strings.Join(words, " ")
}

func newJobsShowCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a job with all its settings", Args: oneJob, ValidArgsFunction: jobNames(s),
		RunE: s.Run(func(ctx context.Context, args []string) error {
			st, err := s.Store(ctx, false)
			if err != nil {
				return err
			}
			j, err := schedule.Show(ctx, st, args[0])
			if err != nil {
				return err
			}
			if !j.Paused || j.Triggered > 0 {
				defer whoFires(s, j.Schedulers)
			}
			return s.Answer(j, func(p *term.Printer) { printJob(p, j) })
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

func newJobsNextCmd(s *session.Session) *cobra.Command {
	n, cron, zone := 5, "", ""
	cmd := &cobra.Command{
		Use:   "next [NAME]",
		Short: "Show the next fire times of a job, or of an expression",
		Long: `Show the next fire times of a job, or with --cron those of an expression, in UTC and
in its own zone.`,
		Example: `  tasklock jobs next daily-digest
  tasklock jobs next --cron "30 2 * * *" --tz Europe/Vienna`,
		ValidArgsFunction: jobNames(s),
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (cron != "") || len(args) > 1 {
				return session.Usagef("takes the name of one job, or --cron")
			}
			return nil
		},
		RunE: s.Run(func(ctx context.Context, args []string) error {
			if n < 1 || n > 1000 {
				return session.Usagef("--count: must be between 1 and 1000")
			}
			if cron != "" {
				c, err := schedule.ParseCron(cron, zone)
				if err != nil {
					return err
				}
				return printTimes(s, c, c.Times(s.Now(), n))
			}
			st, err := s.Store(ctx, false)
			if err != nil {
				return err
			}
			j, times, err := schedule.Times(ctx, st, args[0], n)
			if err != nil {
				return err
			}
			c, err := schedule.ParseCron(j.Cron, j.Zone)
			if err != nil {
				return err
			}
			return printTimes(s, c, times)
		}),
	}
	cmd.Flags().IntVarP(&n, "count", "n", 5, "so many")
	cmd.Flags().StringVar(&cron, "cron", "", "of this expression")
	cmd.Flags().StringVar(&zone, "tz", "", "with --cron: its time zone (default UTC)")
	return cmd
}

func printTimes(s *session.Session, c schedule.Cron, times []time.Time) error {
	data := map[string]any{"cron": c.String(), "tz": c.Zone().String(), "times": times}
	return s.Answer(data, func(p *term.Printer) {
		var rows [][]term.Text
		for _, t := range times {
			rows = append(rows, term.Row(term.Strong.Of(term.Stamp(t)), t.In(c.Zone()).Format("Mon 2006-01-02 15:04:05 MST"), term.Faint.Of(p.Relative(t))))
		}
		p.Table([]string{"UTC", strings.ToUpper(c.Zone().String()), ""}, rows)
	})
}

func newJobsHistoryCmd(s *session.Session) *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use:   "history [NAME]",
		Short: "Show what became of fire times, newest first",
		Long: `Show what became of the fire times of a job, or of all jobs, newest first: done, failed,
lost, skipped and why, by which pod, at which attempt, how long. Success rates count
all records that are kept.

In a pipe the fields are separated by tabs: job, fire time, state, seconds late,
seconds it ran, attempt, pod, exit code, why.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneJob(cmd, args)
		},
		ValidArgsFunction: jobNames(s),
		RunE: s.Run(func(ctx context.Context, args []string) error {
			if limit < 1 {
				return session.Usagef("--limit: must be positive")
			}
			st, err := s.Store(ctx, false)
			if err != nil {
				return err
			}
			r := schedule.HistoryRequest{Limit: limit}
			if len(args) > 0 {
				r.Job = args[0]
			}
			out, err := schedule.History(ctx, st, r)
			if err != nil {
				return err
			}
			return s.Partly(out, allDamaged(out.Damaged), func(p *term.Printer) { printFires(p, out, r.Job != "") })
		}),
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "at most so many, the newest")
	return cmd
}

func printFires(p *term.Printer, h schedule.HistoryResult, one bool) {
	if len(h.Fires) == 0 && p.Wide {
		p.Line("Nothing was fired yet.")
		return
	}
	var rows [][]term.Text
	for _, f := range h.Fires {
		late, ran, exit, attempt := "", "", "", ""
		if f.ClaimedAt != nil {
			late, attempt = seconds(f.ClaimedAt.Sub(f.At)), strconv.Itoa(f.Attempt)
		}
		if f.EndedAt != nil && f.ClaimedAt != nil {
			ran = seconds(f.Duration())
		}
		if f.ExitCode != nil {
			exit = strconv.Itoa(*f.ExitCode)
		}
		why := term.Short(f.Why, 120)
		if f.Count > 1 {
			why = fmt.Sprintf("%d fire times until %s: %s", f.Count, term.Stamp(*f.Until), term.Short(f.Why, 100))
		}
		rows = append(rows, term.Row(term.Strong.Of(f.Job), term.Stamp(f.At), fireState(f), late, ran, attempt, f.Pod, exit, term.Faint.Of(why)))
	}
	p.Table([]string{"JOB", "FIRE TIME", "STATE", "LATE", "RAN", "ATTEMPT", "POD", "EXIT", "WHY"}, rows)
	if !p.Wide {
		return
	}
	for _, s := range h.Jobs {
		if s.Success != nil {
			mean := ""
			if s.Done > 0 {
				mean = fmt.Sprintf(", mean %.2fs", s.Mean)
			}
			p.Line("%s: %.1f %% of %d succeeded, %d skipped%s.", s.Job, 100**s.Success, s.Done+s.Failed+s.Lost, s.Skipped, mean)
		}
	}
	if f := h.Fires[0]; one && f.Output != "" {
		p.Line("Last lines of %s:", f.RunID)
		for line := range strings.SplitSeq(f.Output, "\n") {
			p.Line("  %s", line)
		}
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) }

func fireState(f schedule.Fire) term.Text {
	switch f.State {
	case schedule.Done:
		return term.Green.Of(string(f.State))
	case schedule.Failed, schedule.Lost:
		return term.Red.Of(string(f.State))
	case schedule.Skipped:
		return term.Yellow.Of(string(f.State))
	}
	return term.Normal.Of("running")
}

// told is how a fire ended, in a few words.
func told(f schedule.Fire) string {
	s := string(f.State)
	if f.Why != "" {
		s += ": " + term.Short(f.Why, 120)
	}
	if f.Pod != "" {
		s += fmt.Sprintf(" (%s, %s)", f.Pod, f.Duration().Round(time.Millisecond))
	}
	return s
}
