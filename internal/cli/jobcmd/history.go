package jobcmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/schedule"
)

func newJobsHistoryCmd(s *session.Session) *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use:   "history [NAME]",
		Short: "Show past fire times, newest first",
		Long: `Show the fire times of a job, or of all jobs, newest first: done, failed, lost or
skipped and why, by which pod, at which attempt, how long. Success rates count all
records that are kept.

In a pipe, tabs separate the fields: job, fire time, state, seconds late, seconds it
ran, attempt, pod, exit code, why.`,
		Args:              session.AtMostOne("job"),
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
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "show at most this many, the newest")
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

// told says how a fire ended, in a few words.
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
