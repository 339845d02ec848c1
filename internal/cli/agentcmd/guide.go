package agentcmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/harness"
)

func NewGuide(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "guide",
		Short: "Print one page of instructions for coding agents",
		Args:  session.NoArgs,
		RunE: s.Run(func(context.Context, []string) error {
			return s.Answer(map[string]string{"guide": harness.Guide}, func(p *term.Printer) {
				for line := range strings.Lines(harness.Guide) {
					p.Line("%s", strings.TrimSuffix(line, "\n"))
				}
			})
		}),
	}
}
