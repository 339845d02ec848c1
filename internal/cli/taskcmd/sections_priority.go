package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/task"
)

func newSectionsPriorityCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "priority SECTION PRIORITY",
		Short:   "Set the priority of a section",
		Long:    `Set the priority of a section: high, medium, low, or a number from 1 (first) to 999.`,
		Example: `  tasklock sections priority Backend high`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return session.Usagef("takes a section and a priority, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{"high", "medium", "low"}, cobra.ShellCompDirectiveNoFileComp
			}
			return sectionNames(s, 1)(cmd, args, text)
		},
		RunE: s.Run(func(ctx context.Context, args []string) error {
			var priority priorityFlag
			if err := priority.Set(args[1]); err != nil {
				return session.Usagef("priority %q: %v", term.Short(args[1], 40), err)
			}
			r := task.SectionRequest{Name: args[0], Priority: &priority.value}
			return setSection(ctx, s, r, func(p *term.Printer, section task.Section) {
				p.Line("%s the priority of section %s to %s.", p.Did("Set", "Would set"), section.Name, priorityName(section.Priority))
			})
		}),
	}
}
