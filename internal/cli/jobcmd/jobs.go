// Package jobcmd has the commands about jobs, and the scheduler. Each New
// function makes the command of its name.
package jobcmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
)

func NewJobs(s *session.Session) *cobra.Command {
	cmds := []*cobra.Command{newJobsAddCmd(s), newJobsApplyCmd(s), newJobsListCmd(s), newJobsShowCmd(s), newJobsHistoryCmd(s), newJobsNextCmd(s)}
	for _, c := range changes {
		cmds = append(cmds, c.cmd(s))
	}
	return session.Group("jobs", "Manage jobs that fire on a schedule", cmds...)
}

var oneJob = session.One("job")

// gitPace warns about jobs in a git store.
func gitPace(s *session.Session) {
	if cfg, err := s.Config(); err == nil {
		if url, _ := cfg.Store(); config.IsGit(url) {
			s.Warn("a commit to a git remote takes seconds: jobs may start a minute late; use it for a few jobs an hour")
		}
	}
}

// fires says when a job fires next.
func fires(p *term.Printer, next *time.Time) string {
	if next == nil {
		return "not while it is paused"
	}
	return p.When(*next)
}

// jobNames completes the name of a job.
func jobNames(s *session.Session) cobra.CompletionFunc {
	return s.Completion(1, func(ctx context.Context, st *store.Store) ([]string, error) {
		out, err := schedule.List(ctx, st)
		return term.Each(out.Jobs, jobName), err
	})
}

func jobName(j schedule.Info) string { return j.Name }

// whoFires warns if no scheduler runs that fires a job.
func whoFires(s *session.Session, all []schedule.Pod) {
	if view.SchedulerNames(all) == "" {
		s.Warn("no scheduler is running: %s", s.CommandLine("scheduler"))
	}
}

func jobState(j schedule.Info) term.Text {
	switch {
	case j.Damaged != nil:
		return term.Red.Of("damaged")
	case len(j.Running) > 0:
		return term.Green.Of("running")
	case j.Paused:
		return term.Yellow.Of("paused")
	case j.Waiting:
		return term.Yellow.Of("waiting")
	}
	return term.Normal.Of("idle")
}

// command is a job's command as a shell would read it.
func command(j schedule.Job) string {
	switch {
	case j.Cron == "": // it cannot be read
		return ""
	case len(j.Command) == 0:
		return "(a handler)"
	}
	return term.QuotedLine(j.Command)
}
