package jobcmd

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/schedule"
)

// applyJobs carries out an add or apply and shows what changed.
func applyJobs(ctx context.Context, s *session.Session, r schedule.ApplyRequest) error {
	id, st, err := s.Act(ctx, true)
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
			printChange(p, c)
		}
		if len(out.Changes) == 0 {
			p.Line("No jobs.")
		}
	})
}

func printChange(p *term.Printer, c schedule.Change) {
	switch c.Action {
	case "added":
		p.Line("%s job %s, fires %s.", p.Did("Added", "Would add"), c.Name, fires(p, c.Next))
	case "removed":
		p.Line("%s job %s.", p.Did("Removed", "Would remove"), c.Name)
	case "changed":
		p.Line("%s job %s, fires %s:", p.Did("Changed", "Would change"), c.Name, fires(p, c.Next))
		for _, f := range c.Fields {
			p.Line("  %s: %s → %s", f.Name, cmp.Or(term.Short(f.From, 120), "none"), cmp.Or(term.Short(f.To, 120), "none"))
		}
	default:
		p.Line("Unchanged: job %s, fires %s.", c.Name, fires(p, c.Next))
	}
}

func newJobsApplyCmd(s *session.Session) *cobra.Command {
	file, prune := "", false
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Add and change jobs as a file says",
		Long: `Add the jobs of a YAML file and change those that differ. If anything is wrong,
change nothing. - is stdin. --prune also removes the jobs that the file does not
have. --dry-run shows the changes.

A file may have 10,000 jobs. One commit changes about a thousand, all or none; a
larger file takes several, and if one fails, the same command completes them.

  jobs:
    daily-digest:
      cron: "0 6 * * *"
      tz: Europe/Vienna
      command: [./digest, --all]

Further keys are the flags of jobs add: dir, env, pool, ttl, max-run, jitter,
misfire, overlap, on-crash, max-attempts, keep, keep-for.`,
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
	cmd.Flags().StringVarP(&file, "file", "f", "", "read this `FILE`; - is stdin")
	cmd.Flags().BoolVar(&prune, "prune", false, "remove the jobs that the file does not have")
	return cmd
}
