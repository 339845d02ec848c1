package taskcmd

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
)

func newSectionsListCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the sections, their tasks and who works there",
		Long: `List the sections in the order of next, their tasks and who works there.

In a pipe, tabs separate the fields: name, priority, shared or exclusive, open tasks,
all tasks, locked by, state, depends on. --quiet prints only the names.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error {
			list, err := allSections(ctx, st)
			if err != nil {
				return err
			}
			if s.Quiet && !s.JSON {
				p := s.Printer()
				for _, section := range list {
					p.Line("%s", section.Name)
				}
				return p.Flush()
			}
			return s.Answer(map[string]any{"sections": list}, func(p *term.Printer) {
				p.Wide = p.Wide || s.Identity().Agent
				shown := list
				if s.Identity().Agent && len(shown) > session.AgentLimit {
					shown = shown[:session.AgentLimit]
					defer s.Note("%d of %d sections; --json has all.", len(shown), len(list))
				}
				if len(list) == 0 && p.Wide {
					p.Line("No sections.")
					return
				}
				printSections(p, shown)
			})
		}),
	}
}

func printSections(p *term.Printer, list []sectionInfo) {
	var rows [][]term.Text
	for _, s := range list {
		total := 0
		for _, n := range s.Tasks {
			total += n
		}
		look := term.Normal
		if s.Skipped {
			look = term.Faint
		}
		priority := priorityName(s.Priority)
		if !p.Wide {
			priority = strconv.Itoa(s.Priority)
		}
		rows = append(rows, term.Row(term.Strong.Of(s.Name), priority, s.kind(), s.Open, total, term.Yellow.Of(s.LockedBy), look.Of(s.state()), strings.Join(s.DependsOn, ",")))
	}
	p.Table([]string{"SECTION", "PRIORITY", "KIND", "OPEN", "TASKS", "LOCKED BY", "STATE", "DEPENDS ON"}, rows)
}
