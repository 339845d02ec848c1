package taskcmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func newTasksStatsCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Count tasks by status and section",
		Long: `Count tasks by status and section.

In a pipe, tabs separate the fields: section (- for none, * for all), total, and one
number for each status: pending, in_progress, review, completed, failed, blocked,
skipped.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error {
			stats, err := task.Count(ctx, st)
			if err != nil {
				return err
			}
			for _, status := range task.Statuses { // programs find every one
				stats.Status[status] += 0
			}
			return s.Answer(stats, func(p *term.Printer) {
				p.Wide = p.Wide || s.Identity().Agent
				printStats(p, stats)
			})
		}),
	}
}

func printStats(p *term.Printer, s task.Stats) {
	head := []string{"SECTION", "TOTAL"}
	for _, status := range task.Statuses {
		head = append(head, string(status))
	}
	line := func(name string, counts map[task.Status]int) []term.Text {
		total := 0
		for _, n := range counts {
			total += n
		}
		fields := term.Row(term.Strong.Of(name), total)
		for _, status := range task.Statuses {
			fields = append(fields, statusStyle[status].Of(strconv.Itoa(counts[status])))
		}
		return fields
	}
	var rows [][]term.Text
	for _, name := range slices.Sorted(maps.Keys(s.Sections)) {
		rows = append(rows, line(cmp.Or(name, "-"), s.Sections[name]))
	}
	p.Table(head, append(rows, line("*", s.Status)))
	if p.Wide {
		p.Line("%d ready, %d stalled, %s done.", s.Ready, s.Stalled, fmt.Sprintf("%.0f%%", s.Completed))
	}
}
