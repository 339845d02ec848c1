package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/task"
)

func newSectionsAddCmd(s *session.Session) *cobra.Command {
	r := task.SectionRequest{New: true}
	priority := priorityFlag{}
	shared := false
	cmd := &cobra.Command{
		Use:   "add SECTION",
		Short: "Add a section",
		Long: `Add a section. An owner that works on a task in it holds the whole section, so that
one owner works there at a time; with --shared several may, each on another task.
tasks add --section also adds one.`,
		Example: `  tasklock sections add Backend --priority high
  tasklock sections add Docs --shared --depends-on Backend`,
		Args:              oneSection,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.Run(func(ctx context.Context, names []string) error {
			r.Name, r.Shared = names[0], &shared
			if priority.given {
				r.Priority = &priority.value
			}
			return setSection(ctx, s, r, func(p *term.Printer, section task.Section) {
				p.Line("%s section %s.", p.Did("Added", "Would add"), section.Name)
			})
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&shared, "shared", false, "let several owners work in it")
	f.Var(&priority, "priority", "high, medium, low, or a number from 1 (first) to 999")
	f.StringArrayVar(&r.On, "depends-on", nil, "wait for this section; repeat for more")
	_ = cmd.RegisterFlagCompletionFunc("depends-on", sectionNames(s, 0))
	_ = cmd.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions([]string{"high", "medium", "low"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
