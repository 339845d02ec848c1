package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/task"
)

func newTasksStatsCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Count tasks by status and section",
		Long: `Count tasks by status and section. In a pipe the fields are separated by tabs:
section (- for none, * for all), total, and one number for each status: pending,
in_progress, review, completed, failed, blocked, skipped.`,
		Args: noArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			st, err := a.Store(ctx, false)
			if err != nil {
				return err
			}
			s, err := task.Count(ctx, st)
			if err != nil {
				return err
			}
			for _, status := range task.Statuses { // programs find every one
				s.Status[status] += 0
			}
			return a.answer(s, func(p *printer) {
				p.wide = p.wide || a.Identity().Agent
				p.stats(s)
			})
		}),
	}
}

func (p *printer) stats(s task.Stats) {
	head := []string{"SECTION", "TOTAL"}
	for _, status := range task.Statuses {
		head = append(head, string(status))
	}
	line := func(name string, counts map[task.Status]int) []styled {
		total := 0
		for _, n := range counts {
			total += n
		}
		fields := row(strong.of(name), total)
		for _, status := range task.Statuses {
			fields = append(fields, statusStyle[status].of(strconv.Itoa(counts[status])))
		}
		return fields
	}
	var rows [][]styled
	for _, name := range slices.Sorted(maps.Keys(s.Sections)) {
		rows = append(rows, line(cmp.Or(name, "-"), s.Sections[name]))
	}
	p.table(head, append(rows, line("*", s.Status)))
	if p.wide {
		p.line("%d ready, %d stalled, %s done.", s.Ready, s.Stalled, fmt.Sprintf("%.0f%%", s.Completed))
	}
}
