package jobcmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/schedule"
)

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
	cmd.Flags().IntVarP(&n, "count", "n", 5, "show this many")
	cmd.Flags().StringVar(&cron, "cron", "", "use this expression")
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
