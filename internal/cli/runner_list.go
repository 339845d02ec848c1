package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/store"
)

func newRunnerListCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the runners and what they work on",
		Long: `List the runners and what they work on. One that died without a word is shown as
dead or silent until the next runner starts.

In a pipe the fields are separated by tabs: name, state, tasks, section, owner,
host, pid, since, last heartbeat. --quiet prints the names alone.`,
		Args: noArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error { return listRunners(ctx, a) }),
	}
}

func listRunners(ctx context.Context, a *App) error {
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := worker.List(ctx, st)
	if err != nil {
		return err
	}
	if a.Quiet && !a.JSON {
		p := a.printer()
		for _, r := range out.Runners {
			p.line("%s", r.Name)
		}
		return p.flush()
	}
	return a.answer(out, func(p *printer) {
		if len(out.Runners) == 0 && p.wide {
			p.line("No runners.")
			return
		}
		p.runners(out.Runners)
	})
}

func (p *printer) runners(list []worker.Info) {
	var rows [][]styled
	for _, r := range list {
		var tasks []string
		for _, t := range r.Tasks {
			tasks = append(tasks, t.ID)
		}
		look := green
		if r.State == "dead" || r.State == "silent" {
			look = red
		}
		fields := row(strong.of(r.Name), look.of(r.State), strings.Join(tasks, " "), r.Section)
		if p.wide {
			fields = append(fields, row(p.relative(r.Since), p.relative(r.HeartbeatAt), faint.of(fmt.Sprintf("%s:%d", r.Host, r.PID)))...)
		} else {
			fields = append(fields, row(r.Owner, r.Host, r.PID, stamp(r.Since), stamp(r.HeartbeatAt))...)
		}
		rows = append(rows, fields)
	}
	p.table([]string{"RUNNER", "STATE", "TASKS", "SECTION", "STARTED", "SEEN", "WHERE"}, rows)
}

func (a *App) runnerNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.suggestions(func(ctx context.Context, st *store.Store) (names []string, err error) {
		out, err := worker.List(ctx, st)
		for _, r := range out.Runners {
			names = append(names, r.Name)
		}
		return names, err
	})
}

func newRunnerStopCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "stop [NAME]",
		Short: "Ask a runner, or all of them, to stop",
		Long: `Ask a runner to stop, wherever it runs; without a name all of them. It finishes the
task in hand if that ends within its --grace, and else gives it back.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("takes at most one name, got %d", len(args))
			}
			return nil
		},
		ValidArgsFunction: a.runnerNames,
		RunE: a.does(func(ctx context.Context, args []string) error {
			r := worker.StopRequest{By: a.Identity().Owner, DryRun: a.DryRun}
			if len(args) > 0 {
				r.Name = args[0]
			}
			return stopRunners(ctx, a, r)
		}),
	}
}

func stopRunners(ctx context.Context, a *App, r worker.StopRequest) error {
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := worker.Stop(ctx, st, r)
	if err != nil {
		return err
	}
	return a.answer(out, func(p *printer) {
		for _, name := range out.Asked {
			p.line("%s %s to stop.", p.did("Asked", "Would ask", a.DryRun), name)
		}
		if len(out.Asked) == 0 {
			p.line("No runners.")
		}
	})
}

// did is the verb of something that was done, or would be.
func (p *printer) did(done, would string, dry bool) styled {
	if dry {
		return yellow.of(would)
	}
	return green.of(done)
}

func newRunnerWakeupCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "wakeup",
		Short: "Give back the tasks of dead and silent workers, and wake idle runners",
		Long: `Give back the tasks whose worker is dead or silent for longer than its lock lasts,
and let every runner look for work again. None of this is ever needed: whoever
looks for work takes such tasks over.`,
		Args: noArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error { return wakeRunners(ctx, a) }),
	}
}

type wakeupData struct {
	Recovered []taskInfo `json:"recovered"`
	Woken     []string   `json:"woken"`
}

func wakeRunners(ctx context.Context, a *App) error {
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := worker.Wakeup(ctx, st, worker.WakeupRequest{By: a.Identity().Owner, DryRun: a.DryRun})
	if err != nil {
		return err
	}
	data := wakeupData{Recovered: []taskInfo{}, Woken: out.Woken}
	for _, t := range out.Recovered {
		data.Recovered = append(data.Recovered, newTaskInfo(t))
	}
	return a.answer(data, func(p *printer) {
		for _, t := range out.Recovered {
			p.line("%s %s of %s (%s).", p.did("Recovered", "Would recover", a.DryRun), taskName(t.Task), short(t.ClaimedBy, 60), string(t.Lock.State))
		}
		if len(out.Recovered) == 0 {
			p.line("Nothing to recover.")
		}
		if len(out.Woken) > 0 {
			p.line("%s %s.", p.did("Woke", "Would wake", a.DryRun), strings.Join(out.Woken, ", "))
		}
	})
}
