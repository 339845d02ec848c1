package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/harness"
)

func newGuideCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "guide",
		Short: "What a coding agent needs to know, on one page",
		Args:  noArgs,
		RunE: a.does(func(context.Context, []string) error {
			return a.answer(map[string]string{"guide": harness.Guide}, func(p *printer) {
				for line := range strings.Lines(harness.Guide) {
					p.line("%s", strings.TrimSuffix(line, "\n"))
				}
			})
		}),
	}
}
