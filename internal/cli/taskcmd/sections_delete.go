package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/task"
)

func newSectionsDeleteCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:               "delete SECTION",
		Short:             "Delete a section without tasks",
		Args:              oneSection,
		ValidArgsFunction: sectionNames(s, 1),
		RunE: s.Run(func(ctx context.Context, names []string) error {
			id, st, err := s.Act(ctx, false)
			if err != nil {
				return err
			}
			if err := task.DeleteSection(ctx, st, names[0], id.Owner, s.DryRun); err != nil {
				return err
			}
			return s.Answer(map[string]string{"section": names[0]}, func(p *term.Printer) {
				p.Line("%s section %s.", p.Did("Deleted", "Would delete"), names[0])
			})
		}),
	}
}
