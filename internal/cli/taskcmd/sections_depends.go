package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/task"
)

func newSectionsDependsCmd(s *session.Session) *cobra.Command {
	r := task.SectionRequest{}
	cmd := &cobra.Command{
		Use:   "depends SECTION [OTHER...]",
		Short: "Make a section wait for other sections",
		Long: `Make a section wait until the others have no open tasks; --remove ends that.

Exit codes:
  11  a cycle, which it names`,
		Example: `  tasklock sections depends Docs Backend
  tasklock sections depends Docs --remove Backend`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && !cmd.Flags().Changed("remove") {
				return session.Usagef("needs a section, and what it depends on or --remove SECTION")
			}
			return nil
		},
		ValidArgsFunction: sectionNames(s, 0),
		RunE: s.Run(func(ctx context.Context, names []string) error {
			r.Name, r.On = names[0], names[1:]
			return setSection(ctx, s, r, func(p *term.Printer, section task.Section) {
				printDepends(p, "Section "+section.Name, section.DependsOn)
			})
		}),
	}
	cmd.Flags().StringArrayVar(&r.Off, "remove", nil, "do not wait for this section; repeat for more")
	_ = cmd.RegisterFlagCompletionFunc("remove", sectionNames(s, 0))
	return cmd
}
