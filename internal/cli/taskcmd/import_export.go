package taskcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/task"
)

func newTasksImportCmd(s *session.Session) *cobra.Command {
	format, requestID := "", ""
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Add the tasks of a file, all or none",
		Long: `Add the tasks of a JSON file or a Markdown checklist, all of them or none; - is stdin.
The name or the beginning of the file shows the format.

JSON is what export writes: {"tasks": [{"id", "title", "description", "section",
"priority", "dependsOn", "labels", "status"}, …], "sections": [{"name", "priority",
"shared", "skipped", "dependsOn"}, …]}. Only titles and names are required. Existing
sections do not change.

In Markdown every line like "- [ ] title #label" is a task and every heading a
section; a ticked task is completed. Other lines are ignored.`,
		Example: `  tasklock tasks import plan.md --dry-run
  tasklock tasks export | ssh other tasklock tasks import -`,
		Args: session.One("file"),
		RunE: s.Run(func(ctx context.Context, args []string) error { return importTasks(ctx, s, args[0], format, requestID) }),
	}
	cmd.Flags().StringVar(&format, "format", "", "json or markdown")
	requestIDFlag(cmd, &requestID)
	return completeFlags(s, cmd)
}

func importTasks(ctx context.Context, s *session.Session, name, format, requestID string) error {
	if err := checkFormat(format); err != nil {
		return err
	}
	data, err := s.ReadFile(name, task.MaxFile)
	if err != nil {
		return err
	}
	id, st, err := s.Act(ctx, true)
	if err != nil {
		return err
	}
	if format == "" {
		format = guessFormat(name, data)
	}
	return added(s)(task.Import(ctx, st, task.ImportRequest{Data: data, Format: format, By: id.Owner, ID: requestID, DryRun: s.DryRun}))
}

func checkFormat(format string) error {
	switch format {
	case "", "json", "markdown":
		return nil
	}
	return session.Usagef("--format: must be json or markdown, not %q", term.Short(format, 40))
}

func guessFormat(name string, data []byte) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".md", ".markdown":
		return "markdown"
	case ".json":
		return "json"
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return "json"
	}
	return "markdown"
}

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
		p.Text(b.String())
		return p.Flush()
	}
	_, err = s.Stdout.Write(term.Escape(b.Bytes()))
	return err
}
