package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/task"
)

func newSectionsGraphCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "graph",
		Short: "Draw which sections depend on which",
		Long: `Draw the sections. Below each one stands what it depends on; what is drawn once
is only named where it comes again. With --json: the sections, as from list.`,
		Args: noArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			st, err := a.Store(ctx, false)
			if err != nil {
				return err
			}
			out, err := task.Sections(ctx, st, "")
			if err != nil {
				return err
			}
			list := make([]sectionInfo, len(out.Sections))
			for i, s := range out.Sections {
				list[i] = newSectionInfo(s)
			}
			return a.answer(map[string]any{"sections": list}, func(p *printer) { a.drawSections(p, list) })
		}),
	}
}

func (a *App) drawSections(p *printer, list []sectionInfo) {
	if len(list) == 0 {
		p.line("No sections.")
		return
	}
	byName := map[string]sectionInfo{}
	var below []string
	for _, s := range list {
		byName[s.Name] = s
		below = append(below, s.DependsOn...)
	}
	var roots, rest []string
	for _, s := range list {
		if slices.Contains(below, s.Name) {
			rest = append(rest, s.Name)
		} else {
			roots = append(roots, s.Name)
		}
	}
	label := func(name string) string {
		s, ok := byName[name]
		if !ok {
			return short(name, 80) + " (gone)"
		}
		return short(name, 80) + " (" + s.state() + ")"
	}
	if !p.tree(roots, rest, label, func(name string) []string { return byName[name].DependsOn }) {
		a.note("The first %d lines; --json has all.", treeLines)
	}
}
