package cli

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

	"github.com/tasklock/tasklock/schedule"
)

func newJobsListCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the jobs and when they fire next",
		Long: `List the jobs, when they fire next, and where they run.

In a pipe the fields are separated by tabs: name, state, expression, zone, next fire
time, pods that run it, command. --quiet prints the names alone.`,
		Args: noArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error { return listJobs(ctx, a) }),
	}
}

func listJobs(ctx context.Context, a *App) error {
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := schedule.List(ctx, st)
	if err != nil {
		return err
	}
	if fires := slices.ContainsFunc(out.Jobs, func(j schedule.Info) bool { return !j.Paused }); fires && !a.DryRun {
		defer a.whoFires(out.Schedulers)
	}
	var bad []*schedule.DamagedError
	for _, j := range out.Jobs {
		if j.Damaged != nil {
			bad = append(bad, j.Damaged)
		}
	}
	if a.Quiet && !a.JSON {
		p := a.printer()
		for _, j := range out.Jobs {
			p.line("%s", j.Name)
		}
		return errors.Join(p.flush(), allDamaged(bad))
	}
	return a.partly(out, allDamaged(bad), func(p *printer) {
		if len(out.Jobs) == 0 && p.wide {
			p.line("No jobs.")
			return
		}
		p.jobs(out.Jobs)
		if names := schedulerNames(out.Schedulers); p.wide && names != "" {
			p.line("Schedulers: %s", names)
		}
	})
}

// whoFires warns if no scheduler is there to fire a job.
func (a *App) whoFires(all []schedule.Pod) {
	if schedulerNames(all) == "" {
		a.warn("no scheduler is running: %s", a.commandLine("scheduler"))
	}
}

// schedulerNames lists those that run.
func schedulerNames(all []schedule.Pod) string {
	var names []string
	for _, s := range all {
		if s.State == "running" {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}

// allDamaged is one error for several, nil for none.
func allDamaged(list []*schedule.DamagedError) error {
	var all []error
	for _, e := range list {
		all = append(all, e)
	}
	return errors.Join(all...)
}

func (p *printer) jobs(list []schedule.Info) {
	var rows [][]styled
	for _, j := range list {
		next := ""
		if j.Next != nil {
			next = stamp(*j.Next)
			if p.wide {
				next = p.relative(*j.Next)
			}
		}
		var pods []string
		for _, r := range j.Running {
			pods = append(pods, r.Pod)
		}
		rows = append(rows, row(
			strong.of(j.Name), jobState(j), j.Cron, j.Zone, next, strings.Join(pods, " "), faint.of(short(command(j.Job), 80)),
		))
	}
	p.table([]string{"JOB", "STATE", "CRON", "ZONE", "NEXT", "RUNS ON", "COMMAND"}, rows)
}

func jobState(j schedule.Info) styled {
	switch {
	case j.Damaged != nil:
		return red.of("damaged")
	case len(j.Running) > 0:
		return green.of("running")
	case j.Paused:
		return yellow.of("paused")
	case j.Waiting:
		return yellow.of("waiting")
	}
	return normal.of("idle")
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
		words[i] = shellQuote(w)
	}
	return strings.Join(words, " ")
}

func newJobsShowCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a job with all its settings", Args: oneJob, ValidArgsFunction: a.jobNames,
		RunE: a.does(func(ctx context.Context, args []string) error {
			st, err := a.Store(ctx, false)
			if err != nil {
				return err
			}
			j, err := schedule.Show(ctx, st, args[0])
			if err != nil {
				return err
			}
			if !j.Paused || j.Triggered > 0 {
				defer a.whoFires(j.Schedulers)
			}
			return a.answer(j, func(p *printer) { p.job(j) })
		}),
	}
}

func (p *printer) job(j schedule.Info) {
	state := jobState(j)
	p.line("%s: %s", strong.of(j.Name), state)
	p.line("  cron: %s (%s)", j.Cron, j.Zone)
	p.line("  next: %s", p.fires(j.Next))
	if names := schedulerNames(j.Schedulers); names != "" {
		p.line("  schedulers: %s", names)
	}
	p.line("  command: %s", command(j.Job))
	if j.Dir != "" {
		p.line("  dir: %s", j.Dir)
	}
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		p.line("  env: %s=%s", name, j.Env[name])
	}
	p.line("  ttl: %s", exact(j.TTL))
	if j.MaxRun > 0 {
		p.line("  max-run: %s", exact(j.MaxRun))
	}
	if j.Jitter > 0 {
		p.line("  jitter: %s", exact(j.Jitter))
	}
	p.line("  misfire: %s, overlap: %s, on-crash: %s, max-attempts: %d", string(j.Misfire), string(j.Overlap), string(j.OnCrash), j.MaxAttempts)
	p.line("  keeps: %d records, %s", j.Keep, exact(j.KeepFor))
	if j.Triggered > 0 {
		p.line("  triggered: %d wait for a pod", j.Triggered)
	}
	for _, r := range j.Running {
		p.line("  running: %s on %s, attempt %d", stamp(r.At), r.Pod, r.Attempt)
	}
	if j.Last != nil {
		p.line("  last: %s %s", stamp(j.Last.At), told(*j.Last))
	}
}

func newJobsNextCmd(a *App) *cobra.Command {
	n, cron, zone := 5, "", ""
	cmd := &cobra.Command{
		Use:   "next [NAME]",
		Short: "Show the next fire times of a job, or of an expression",
		Long: `Show the next fire times of a job, or with --cron those of an expression, in UTC and
in its own zone.`,
		Example: `  tasklock jobs next daily-digest
  tasklock jobs next --cron "30 2 * * *" --tz Europe/Vienna`,
		ValidArgsFunction: a.jobNames,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (cron != "") || len(args) > 1 {
				return usagef("takes the name of one job, or --cron")
			}
			return nil
		},
		RunE: a.does(func(ctx context.Context, args []string) error {
			if n < 1 || n > 1000 {
				return usagef("--count: must be between 1 and 1000")
			}
			if cron != "" {
				c, err := schedule.ParseCron(cron, zone)
				if err != nil {
					return err
				}
				return a.times(c, c.Times(a.Now(), n))
			}
			st, err := a.Store(ctx, false)
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
			return a.times(c, times)
		}),
	}
	cmd.Flags().IntVarP(&n, "count", "n", 5, "so many")
	cmd.Flags().StringVar(&cron, "cron", "", "of this expression")
	cmd.Flags().StringVar(&zone, "tz", "", "with --cron: its time zone (default UTC)")
	return cmd
}

func (a *App) times(c schedule.Cron, times []time.Time) error {
	data := map[string]any{"cron": c.String(), "tz": c.Zone().String(), "times": times}
	return a.answer(data, func(p *printer) {
		var rows [][]styled
		for _, t := range times {
			rows = append(rows, row(strong.of(stamp(t)), t.In(c.Zone()).Format("Mon 2006-01-02 15:04:05 MST"), faint.of(p.relative(t))))
		}
		p.table([]string{"UTC", strings.ToUpper(c.Zone().String()), ""}, rows)
	})
}

func newJobsHistoryCmd(a *App) *cobra.Command {
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
		ValidArgsFunction: a.jobNames,
		RunE: a.does(func(ctx context.Context, args []string) error {
			if limit < 1 {
				return usagef("--limit: must be positive")
			}
			st, err := a.Store(ctx, false)
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
			return a.partly(out, allDamaged(out.Damaged), func(p *printer) { p.fireHistory(out, r.Job != "") })
		}),
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "at most so many, the newest")
	return cmd
}

func (p *printer) fireHistory(h schedule.HistoryResult, one bool) {
	if len(h.Fires) == 0 && p.wide {
		p.line("Nothing was fired yet.")
		return
	}
	var rows [][]styled
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
		why := short(f.Why, 120)
		if f.Count > 1 {
			why = fmt.Sprintf("%d fire times until %s: %s", f.Count, stamp(*f.Until), short(f.Why, 100))
		}
		rows = append(rows, row(strong.of(f.Job), stamp(f.At), fireState(f), late, ran, attempt, f.Pod, exit, faint.of(why)))
	}
	p.table([]string{"JOB", "FIRE TIME", "STATE", "LATE", "RAN", "ATTEMPT", "POD", "EXIT", "WHY"}, rows)
	if !p.wide {
		return
	}
	for _, s := range h.Jobs {
		if s.Success != nil {
			mean := ""
			if s.Done > 0 {
				mean = fmt.Sprintf(", mean %.2fs", s.Mean)
			}
			p.line("%s: %.1f %% of %d succeeded, %d skipped%s.", s.Job, 100**s.Success, s.Done+s.Failed+s.Lost, s.Skipped, mean)
		}
	}
	if f := h.Fires[0]; one && f.Output != "" {
		p.line("Last lines of %s:", f.RunID)
		for line := range strings.SplitSeq(f.Output, "\n") {
			p.line("  %s", line)
		}
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) }

func fireState(f schedule.Fire) styled {
	switch f.State {
	case schedule.Done:
		return green.of(string(f.State))
	case schedule.Failed, schedule.Lost:
		return red.of(string(f.State))
	case schedule.Skipped:
		return yellow.of(string(f.State))
	}
	return normal.of("running")
}

// told is how a fire ended, in a few words.
func told(f schedule.Fire) string {
	s := string(f.State)
	if f.Why != "" {
		s += ": " + short(f.Why, 120)
	}
	if f.Pod != "" {
		s += fmt.Sprintf(" (%s, %s)", f.Pod, f.Duration().Round(time.Millisecond))
	}
	return s
}
