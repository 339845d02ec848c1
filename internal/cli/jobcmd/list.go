package jobcmd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
)

func newJobsListCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the jobs and when they fire next",
		Long: `List the jobs, when they fire next, and where they run.

In a pipe, tabs separate the fields: name, state, expression, zone, next fire time,
pods that run it, command. --quiet prints only the names.`,
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
			term.Strong.Of(j.Name), jobState(j), j.Cron, j.Zone, next, strings.Join(pods, " "), term.Faint.Of(term.Short(command(j.Job), 80)),
		))
	}
	p.List("No jobs.", []string{"JOB", "STATE", "CRON", "ZONE", "NEXT", "RUNS ON", "COMMAND"}, rows)
}
