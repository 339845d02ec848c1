package taskcmd

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func newSectionsShowCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:               "show SECTION",
		Short:             "Show everything about one section",
		Args:              oneSection,
		ValidArgsFunction: sectionNames(s, 1),
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, names []string) error {
			out, err := task.Sections(ctx, st, names[0])
			if err != nil {
				return err
			}
			section := newSectionInfo(out.Sections[0])
			return s.Answer(map[string]any{"section": section}, func(p *term.Printer) { printSection(p, section) })
		}),
	}
}

func printSection(p *term.Printer, s sectionInfo) {
	rows := term.Fields{{"section", s.Name}, {"state", s.state()}, {"kind", s.kind()}, {"priority", priorityName(s.Priority)}}
	rows.Add("depends on", strings.Join(s.DependsOn, ", "))
	rows.Add("locked by", s.LockedBy)
	for _, status := range task.Statuses {
		if n := s.Tasks[status]; n > 0 {
			rows.Add(string(status), strconv.Itoa(n))
		}
	}
	rows.Add("created", p.When(s.CreatedAt))
	p.Fields(rows)
}
