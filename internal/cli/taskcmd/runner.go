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

func NewRunner(s *session.Session) *cobra.Command {
	return session.Group("runner", "Work through the tasks, one after the other",
		newRunnerStartCmd(s), newRunnerListCmd(s), newRunnerStopCmd(s), newRunnerWakeupCmd(s))
}

func runnerNames(s *session.Session) cobra.CompletionFunc {
	return s.Completion(1, func(ctx context.Context, st *store.Store) ([]string, error) {
		out, err := worker.List(ctx, st)
		return term.Each(out.Runners, runnerName), err
	})
}

func runnerName(r worker.Info) string { return r.Name }

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
	return s.AnswerNames(out, term.Each(out.Runners, runnerName), func(p *term.Printer) { printRunners(p, out.Runners) })
}

func printRunners(p *term.Printer, list []worker.Info) {
	var rows [][]term.Text
	for _, r := range list {
		tasks := term.Each(r.Tasks, taskID)
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
	p.List("No runners.", []string{"RUNNER", "STATE", "TASKS", "SECTION", "STARTED", "SEEN", "WHERE"}, rows)
}

func newRunnerStopCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "stop [NAME]",
		Short: "Ask a runner, or all of them, to stop",
		Long: `Ask a runner to stop, wherever it runs; without a name, ask all. If its command ends
within --grace, the task is completed; otherwise it becomes pending again.`,
		Args:              session.AtMostOne("name"),
		ValidArgsFunction: runnerNames(s),
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, args []string) error {
			r := worker.StopRequest{By: s.Identity().Owner, DryRun: s.DryRun}
			if len(args) > 0 {
				r.Name = args[0]
			}
			return session.Reply(s, printAsked)(worker.Stop(ctx, st, r))
		}),
	}
}

func printAsked(p *term.Printer, out worker.StopResult) {
	for _, name := range out.Asked {
		p.Line("%s %s to stop.", p.Did("Asked", "Would ask"), name)
	}
	if len(out.Asked) == 0 {
		p.Line("No runners.")
	}
}

func newRunnerWakeupCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "wakeup",
		Short: "Free the tasks of dead and silent workers, and wake idle runners",
		Long: `Make the tasks of dead workers pending again, and those of workers that are silent
for longer than their ttl; then let every runner look for work. You never need this:
the next worker takes over such tasks.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error { return wakeRunners(ctx, s, st) }),
	}
}

type wakeupData struct {
	Recovered []taskInfo `json:"recovered"`
	Woken     []string   `json:"woken"`
}

func wakeRunners(ctx context.Context, s *session.Session, st *store.Store) error {
	out, err := worker.Wakeup(ctx, st, worker.WakeupRequest{By: s.Identity().Owner, DryRun: s.DryRun})
	if err != nil {
		return err
	}
	data := wakeupData{Recovered: taskInfos(out.Recovered), Woken: out.Woken}
	return s.Answer(data, func(p *term.Printer) {
		for _, t := range out.Recovered {
			p.Line("%s %s of %s (%s).", p.Did("Recovered", "Would recover"), taskName(t.Task), term.Short(t.ClaimedBy, 60), string(t.Lock.State))
		}
		if len(out.Recovered) == 0 {
			p.Line("Nothing to recover.")
		}
		if len(out.Woken) > 0 {
			p.Line("%s %s.", p.Did("Woke", "Would wake"), strings.Join(out.Woken, ", "))
		}
	})
}
