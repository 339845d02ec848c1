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
		Long: `List the runners and what they work on. One that died without a word is shown as
dead or silent until the next runner starts.

In a pipe the fields are separated by tabs: name, state, tasks, section, owner,
host, pid, since, last heartbeat. --quiet prints the names alone.`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return listRunners(ctx, s) }),
	}
}

func listRunners(ctx context.Context, s *session.Session) error {
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
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

func runnerNames(s *session.Session) cobra.CompletionFunc {
	return s.Completion(1, func(ctx context.Context, st *store.Store) (names []string, err error) {
		out, err := worker.List(ctx, st)
		for _, r := range out.Runners {
			names = append(names, r.Name)
		}
		return names, err
	})
}

func newRunnerStopCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "stop [NAME]",
		Short: "Ask a runner, or all of them, to stop",
		Long: `Ask a runner to stop, wherever it runs; without a name all of them. It finishes the
task in hand if that ends within its --grace, and else gives it back.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return session.Usagef("takes at most one name, got %d", len(args))
			}
			return nil
		},
		ValidArgsFunction: runnerNames(s),
		RunE: s.Run(func(ctx context.Context, args []string) error {
			r := worker.StopRequest{By: s.Identity().Owner, DryRun: s.DryRun}
			if len(args) > 0 {
				r.Name = args[0]
			}
			return stopRunners(ctx, s, r)
		}),
	}
}

func stopRunners(ctx context.Context, s *session.Session, r worker.StopRequest) error {
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := worker.Stop(ctx, st, r)
	if err != nil {
		return err
	}
	return s.Answer(out, func(p *term.Printer) {
		for _, name := range out.Asked {
			p.Line("%s %s to stop.", didOrWould(p, "Asked", "Would ask", s.DryRun), name)
		}
		if len(out.Asked) == 0 {
			p.Line("No runners.")
		}
	})
}

// didOrWould is the verb of something that was done, or would be.
func didOrWould(p *term.Printer, done, would string, dry bool) term.Text {
	if dry {
		return term.Yellow.Of(would)
	}
	return term.Green.Of(done)
}

func newRunnerWakeupCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "wakeup",
		Short: "Give back the tasks of dead and silent workers, and wake idle runners",
		Long: `Give back the tasks whose worker is dead or silent for longer than its lock lasts,
and let every runner look for work again. None of this is ever needed: whoever
looks for work takes such tasks over.`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return wakeRunners(ctx, s) }),
	}
}

type wakeupData struct {
	Recovered []taskInfo `json:"recovered"`
	Woken     []string   `json:"woken"`
}

func wakeRunners(ctx context.Context, s *session.Session) error {
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := worker.Wakeup(ctx, st, worker.WakeupRequest{By: s.Identity().Owner, DryRun: s.DryRun})
	if err != nil {
		return err
	}
	data := wakeupData{Recovered: []taskInfo{}, Woken: out.Woken}
	for _, t := range out.Recovered {
		data.Recovered = append(data.Recovered, newTaskInfo(t))
	}
	return s.Answer(data, func(p *term.Printer) {
		for _, t := range out.Recovered {
			p.Line("%s %s of %s (%s).", didOrWould(p, "Recovered", "Would recover", s.DryRun), taskName(t.Task), term.Short(t.ClaimedBy, 60), string(t.Lock.State))
		}
		if len(out.Recovered) == 0 {
			p.Line("Nothing to recover.")
		}
		if len(out.Woken) > 0 {
			p.Line("%s %s.", didOrWould(p, "Woke", "Would wake", s.DryRun), strings.Join(out.Woken, ", "))
		}
	})
}
