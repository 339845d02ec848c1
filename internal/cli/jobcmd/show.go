package jobcmd

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
)

func newJobsShowCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a job with all its settings", Args: oneJob, ValidArgsFunction: jobNames(s),
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, args []string) error {
			j, err := schedule.Show(ctx, st, args[0])
			if err == nil && (!j.Paused || j.Triggered > 0) {
				defer whoFires(s, j.Schedulers)
			}
			return session.Reply(s, printJob)(j, err)
		}),
	}
}

func printJob(p *term.Printer, j schedule.Info) {
	state := jobState(j)
	p.Line("%s: %s", term.Strong.Of(j.Name), state)
	p.Line("  cron: %s (%s)", j.Cron, j.Zone)
	p.Line("  next: %s", fires(p, j.Next))
	if names := view.SchedulerNames(j.Schedulers); names != "" {
		p.Line("  schedulers: %s", names)
	}
	p.Line("  command: %s", command(j.Job))
	if j.Dir != "" {
		p.Line("  dir: %s", j.Dir)
	}
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		p.Line("  env: %s=%s", name, j.Env[name])
	}
	p.Line("  ttl: %s", term.Exact(j.TTL))
	if j.MaxRun > 0 {
		p.Line("  max-run: %s", term.Exact(j.MaxRun))
	}
	if j.Jitter > 0 {
		p.Line("  jitter: %s", term.Exact(j.Jitter))
	}
	p.Line("  misfire: %s, overlap: %s, on-crash: %s, max-attempts: %d", string(j.Misfire), string(j.Overlap), string(j.OnCrash), j.MaxAttempts)
	p.Line("  keeps: %d records, %s", j.Keep, term.Exact(j.KeepFor))
	if j.Triggered > 0 {
		p.Line("  triggered: %d wait for a pod", j.Triggered)
	}
	for _, r := range j.Running {
		p.Line("  running: %s on %s, attempt %d", term.Stamp(r.At), r.Pod, r.Attempt)
	}
	if j.Last != nil {
		p.Line("  last: %s %s", term.Stamp(j.Last.At), told(*j.Last))
	}
}
