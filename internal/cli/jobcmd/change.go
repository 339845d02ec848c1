package jobcmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
)

// A change is a command that does something to one job.
type change struct {
	name, brief, long string
	force             bool // --force goes on with a damaged record
	repeats           bool // --request-id
	do                func(context.Context, *session.Session, *store.Store, schedule.ChangeRequest) error
}

var changes = []change{
	{name: "pause", brief: "Keep a job from firing until resume", long: `Keep a job from firing until resume. A present run goes on; trigger still works.`, do: pause},
	{name: "resume", brief: "Let a paused job fire again", force: true, do: resume, long: `Let a paused job fire again, from now on. Missed fire times stay missed.

--force also resumes a job whose record of due fire times is damaged: it writes a new
one, without triggers that have not run. It finds present runs by their fire times.`},
	{name: "trigger", brief: "Fire a job now", repeats: true, do: trigger, long: `Fire a job now, even if it is paused. If it is already running, its --overlap
decides. history shows the result.`},
	{name: "remove", brief: "Remove a job", force: true, do: remove, long: `Remove a job. A present run goes on; the records of its fire times stay for a while.

--force also removes a job with a damaged record.`},
}

func (c change) cmd(s *session.Session) *cobra.Command {
	force, id := false, ""
	cmd := &cobra.Command{
		Use: c.name + " NAME", Short: c.brief, Long: c.long, Args: oneJob, ValidArgsFunction: jobNames(s),
		RunE: s.RunAs(func(ctx context.Context, st *store.Store, by string, args []string) error {
			return c.do(ctx, s, st, schedule.ChangeRequest{Name: args[0], By: by, ID: id, DryRun: s.DryRun, Force: force})
		}),
	}
	if c.force {
		cmd.Flags().BoolVar(&force, "force", false, "even if a record of the job is damaged")
	}
	if c.repeats {
		cmd.Flags().StringVar(&id, "request-id", "", "repeat a request with this id: it has one effect")
	}
	return cmd
}

func pause(ctx context.Context, s *session.Session, st *store.Store, r schedule.ChangeRequest) error {
	return session.Reply(s, func(p *term.Printer, j schedule.Info) {
		p.Line("%s job %s.", p.Did("Paused", "Would pause"), j.Name)
	})(schedule.Pause(ctx, st, r))
}

func resume(ctx context.Context, s *session.Session, st *store.Store, r schedule.ChangeRequest) error {
	out, err := schedule.Resume(ctx, st, r)
	if err != nil {
		return err
	}
	if job, err := schedule.Show(ctx, st, r.Name); err == nil {
		defer whoFires(s, job.Schedulers)
	}
	return s.Answer(out, func(p *term.Printer) {
		p.Line("%s job %s, fires %s.", p.Did("Resumed", "Would resume"), out.Name, fires(p, out.Next))
	})
}

func trigger(ctx context.Context, s *session.Session, st *store.Store, r schedule.ChangeRequest) error {
	out, err := schedule.Trigger(ctx, st, r)
	if err != nil {
		return err
	}
	job, err := schedule.Show(ctx, st, r.Name)
	if err != nil && !(out.Repeated && errors.Is(err, schedule.ErrNotFound)) { // somebody removed the job since
		return err
	}
	if err == nil {
		defer whoFires(s, job.Schedulers)
	}
	data := struct {
		schedule.TriggerResult
		Repeated   bool           `json:"repeated"`
		Schedulers []schedule.Pod `json:"schedulers"`
	}{out, out.Repeated, append([]schedule.Pod{}, job.Schedulers...)}
	after := ""
	if out.Repeated {
		after = " (it was already)"
	}
	return s.Answer(data, func(p *term.Printer) { p.Line("%s %s%s.", p.Did("Triggered", "Would trigger"), out.RunID, after) })
}

func remove(ctx context.Context, s *session.Session, st *store.Store, r schedule.ChangeRequest) error {
	if err := schedule.Remove(ctx, st, r); err != nil {
		return err
	}
	return s.Answer(map[string]string{"removed": r.Name}, func(p *term.Printer) {
		p.Line("%s job %s.", p.Did("Removed", "Would remove"), r.Name)
	})
}
