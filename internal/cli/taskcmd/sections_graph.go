package taskcmd

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
)

func newSectionsGraphCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "graph",
		Short: "Draw which sections depend on which",
		Long: `Draw the sections. Below each one is what it depends on; a section that was drawn
before is only named. --json prints the sections as list does.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error {
			list, err := allSections(ctx, st)
			if err != nil {
				return err
			}
			return s.Answer(map[string]any{"sections": list}, func(p *term.Printer) { drawSections(s, p, list) })
		}),
	}
}

func drawSections(s *session.Session, p *term.Printer, list []sectionInfo) {
	if len(list) == 0 {
		p.Line("No sections.")
		return
	}
	byName := map[string]sectionInfo{}
	var below []string
	for _, section := range list {
		byName[section.Name] = section
		below = append(below, section.DependsOn...)
	}
	var roots, rest []string
	for _, section := range list {
		if slices.Contains(below, section.Name) {
			rest = append(rest, section.Name)
		} else {
			roots = append(roots, section.Name)
		}
	}
	label := func(name string) string {
		section, ok := byName[name]
		if !ok {
			return term.Short(name, 80) + " (gone)"
		}
		return term.Short(name, 80) + " (" + section.state() + ")"
	}
	if !p.Tree(roots, rest, label, func(name string) []string { return byName[name].DependsOn }) {
		s.Note("The first %d lines; --json has all.", term.TreeLines)
	}
}
