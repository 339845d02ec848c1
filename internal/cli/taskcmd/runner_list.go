package taskcmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/store"
)

func newRunnerListCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the runners and what they work on",
		Long: `List the runners and what they work on. A runner that died is shown as dead or silent
until the next runner starts.

In a pipe, tabs separate the fields: name, state, tasks, section, owner, host, pid,
since, last heartbeat. --quiet prints only the names.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error { return listRunners(ctx, s, st) }),
	}
}

func listRunners(ctx context.Context, s *session.Session, st *store.Store) error {
	out, err := worker.List(ctx, st)
	if err != nil {
		return err
	}
	if s.Quiet && !s.JSON {
		p := s.Printer()
		for _, r := range out.Runners {
			p.Line("%s", r.Name)
		}
		return p.Flush()
	}
	return s.Answer(out, func(p *term.Printer) {
		if len(out.Runners) == 0 && p.Wide {
			p.Line("No runners.")
			return
		}
		printRunners(p, out.Runners)
	})
}

func printRunners(p *term.Printer, list []worker.Info) {
	var rows [][]term.Text
	for _, r := range list {
		var tasks []string
		for _, t := range r.Tasks {
			tasks = append(tasks, t.ID)
		}
		look := term.Green
		if r.State == "dead" || r.State == "silent" {
			look = term.Red
		}
		fields := term.Row(term.Strong.Of(r.Name), look.Of(r.State), strings.Join(tasks, " "), r.Section)
		if p.Wide {
			fields = append(fields, term.Row(p.Relative(r.Since), p.Relative(r.HeartbeatAt), term.Faint.Of(fmt.Sprintf("%s:%d", r.Host, r.PID)))...)
		} else {
			fields = append(fields, term.Row(r.Owner, r.Host, r.PID, term.Stamp(r.Since), term.Stamp(r.HeartbeatAt))...)
		}
		rows = append(rows, fields)
	}
	p.Table([]string{"RUNNER", "STATE", "TASKS", "SECTION", "STARTED", "SEEN", "WHERE"}, rows)
}
