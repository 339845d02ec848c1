package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/task"
)

func newSectionsSkipCmd(s *session.Session) *cobra.Command {
	off := false
	cmd := &cobra.Command{
		Use:   "skip SECTION",
		Short: "Exclude a section from next and claim (undo: --off)",
		Example: `  tasklock sections skip Docs
  tasklock sections skip Docs --off`,
		Args:              oneSection,
		ValidArgsFunction: sectionNames(s, 1),
		RunE: s.Run(func(ctx context.Context, names []string) error {
			skipped := !off
			r := task.SectionRequest{Name: names[0], Skipped: &skipped}
			return setSection(ctx, s, r, func(p *term.Printer, section task.Section) {
				if off {
					p.Line("%s section %s again.", p.Did("Opened", "Would open"), section.Name)
				} else {
					p.Line("%s section %s.", p.Did("Skipped", "Would skip"), section.Name)
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&off, "off", false, "include the section again")
	return cmd
}
