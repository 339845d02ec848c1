package taskcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/task"
)

func newTasksExportCmd(s *session.Session) *cobra.Command {
	format := "json"
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the tasks as JSON or as a Markdown checklist",
		Long: `Print all tasks that are not archived: as JSON, which import reads, or with --format
markdown as a checklist for people, without ids, priorities and dependencies. --json
prints the usual JSON answer.`,
		Example: `  tasklock tasks export > tasks.json
  tasklock tasks export --format markdown > TODO.md`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return exportTasks(ctx, s, format) }),
	}
	cmd.Flags().StringVar(&format, "format", "json", "json or markdown")
	return completeFlags(s, cmd)
}

func exportTasks(ctx context.Context, s *session.Session, format string) error {
	if err := checkFormat(format); err != nil {
		return err
	}
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := task.Export(ctx, st, &b, format); err != nil {
		return err
	}
	switch {
	case s.JSON && format == "markdown":
		return s.Answer(map[string]string{"markdown": b.String()}, nil)
	case s.JSON:
		return s.Answer(json.RawMessage(b.Bytes()), nil)
	case format == "markdown":
		p := s.Printer()
		for line := range strings.Lines(b.String()) {
			p.Line("%s", strings.TrimSuffix(line, "\n"))
		}
		return p.Flush()
	}
	_, err = s.Stdout.Write(term.Escape(b.Bytes()))
	return err
}
