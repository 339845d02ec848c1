package taskcmd

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

type nextOptions struct {
	claimOptions
	section, label string
	claim          bool
}

func NewNext(s *session.Session) *cobra.Command {
	o := &nextOptions{}
	cmd := &cobra.Command{
		Use:   "next",
		Short: "Show or claim the task to work on next",
		Long: `Show which task to work on next: by section, priority and age, without tasks that are
locked, blocked, or wait for others.

--claim claims it in the same step, so that two workers never get the same task;
--request-id makes that repeatable. --wait waits until a task is ready.

In a pipe, tabs separate the fields: id, title, token. --quiet prints only the id. On
a terminal, and to a coding agent, --claim also prints the text of the task, up to
8 KB; "tasks show" prints all of it.

Exit codes:
  4  no task is ready`,
		Example: `  tasklock next
  tasklock next --claim --section Backend --wait 10m
  ID=$(tasklock next --claim -q) && work-on "$ID" && tasklock tasks complete "$ID" --next`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("worktree") && len(args) == 1 {
				return nil // its path
			}
			return session.NoArgs(cmd, args)
		},
	}
	cmd.RunE = s.Run(func(ctx context.Context, args []string) error {
		if _, err := o.place(ctx, s, args, 0); err != nil {
			return err
		}
		return o.run(ctx, s, cmd)
	})
	o.claimOptions.Flags(cmd)
	f := cmd.Flags()
	o.KeepAliveFlag(cmd)
	o.AttachFlag(cmd)
	o.worktreeFlag(cmd)
	f.StringVar(&o.section, "section", "", "only from this section")
	f.StringVar(&o.label, "label", "", "only with this label")
	f.BoolVar(&o.claim, "claim", false, "claim the task")
	f.Lookup("wait").Usage = "how long to wait for a task to become ready"
	return completeFlags(s, cmd)
}

func (o *nextOptions) run(ctx context.Context, s *session.Session, cmd *cobra.Command) error {
	for _, name := range []string{"ttl", "max-hold", "request-id", "reason", "worktree", "keep-alive", "ends-with", "attach"} {
		if cmd.Flags().Changed(name) && !o.claim {
			return session.Usagef("--%s goes with --claim", name)
		}
	}
	r := task.NextRequest{Section: o.section, Label: o.label, Claim: o.claim, Wait: session.Left(ctx, o.Wait.Value)}
	var err error
	if o.claim {
		if r.Acquire, err = o.claimRequest(ctx, s); err != nil {
			return err
		}
	} else {
		r.Acquire.Owner = s.Identity().Owner
	}
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	if o.Attached(s) {
		return session.Tried(o.holdNext(ctx, s, st, r), o.retry(ctx, s))
	}
	out, err := o.take(ctx, s, st, r)
	if err != nil {
		return session.Tried(err, o.retry(ctx, s))
	}
	var made *madeWorktree
	if out.Grant != nil {
		o.Keep(s, *out.Grant, r.Acquire.Process)
		if made, err = o.work(ctx, s, st, task.ClaimResult{Tasks: []task.Task{out.Task}, Grant: *out.Grant}); err != nil {
			return err
		}
	}
	return o.print(s, out, made)
}

// take asks for the task, and says when it waits.
func (o *nextOptions) take(ctx context.Context, s *session.Session, st *store.Store, r task.NextRequest) (task.NextResult, error) {
	ctx, signals := session.NewListener(ctx)
	defer signals.Stop()
	var begun session.Patience
	r.Waiting = func() {
		signals.Listen()
		begun = tellWait(s, r.Wait)
	}
	out, err := task.Next(ctx, st, r)
	return out, session.Waited(session.Interrupted(ctx, err), begun)
}

func tellWait(s *session.Session, wait time.Duration) session.Patience {
	s.Note("Nothing is ready. Waiting up to %s for a task... (Ctrl+C to cancel)", term.Exact(wait))
	return session.Starts(wait)
}

// retry is the command line that waits.
func (o *nextOptions) retry(ctx context.Context, s *session.Session) []string {
	words := []string{"next"}
	for _, f := range []struct{ name, value string }{{"--section", o.section}, {"--label", o.label}} {
		if f.value != "" {
			words = append(words, f.name, f.value)
		}
	}
	if o.claim {
		words = append(words, "--claim")
	}
	return o.Again(ctx, s, words[0], words[1:], lease.AcquireRequest{Wait: o.Wait.Value})
}

type nextData struct {
	Task  taskData     `json:"task"`
	Token int64        `json:"token"` // 0: not claimed
	Grant *lease.Grant `json:"grant"`

	Worktree *madeWorktree `json:"worktree,omitempty"`
}

func (o *nextOptions) print(s *session.Session, out task.NextResult, made *madeWorktree) error {
	data := nextData{Task: newTaskData(out.Task), Grant: out.Grant, Worktree: made}
	if out.Grant != nil {
		data.Token = tokenOf(*out.Grant, out.Task.ID)
	}
	return s.AnswerNames(data, []string{out.Task.ID}, func(p *term.Printer) {
		switch {
		case !p.Wide && !s.Identity().Agent:
			token := ""
			if data.Token != 0 {
				token = strconv.FormatInt(data.Token, 10)
			}
			fields := term.Row(out.Task.ID, out.Task.Title, token)
			if made != nil {
				fields = append(fields, term.Row(made.Path)...)
			}
			p.Table(nil, [][]term.Text{fields})
		case out.Grant != nil:
			printClaimedTask(s, p, out.Task, *out.Grant, made)
		default:
			p.Line("Next is %s.", taskName(out.Task))
		}
	})
}

// holdNext is next --claim --attach.
func (o *nextOptions) holdNext(ctx context.Context, s *session.Session, st *store.Store, r task.NextRequest) error {
	r.WithSection = true
	var begun session.Patience
	return hold.Attach(ctx, s, 0, view.LockedText, func(ctx context.Context, waiting func(lease.HeldError)) (*hold.Taken, error) {
		r.Waiting = func() {
			begun = tellWait(s, r.Wait)
			waiting(lease.HeldError{})
		}
		t, lease, err := task.HoldNext(ctx, st, r)
		if err != nil {
			return nil, session.Waited(err, begun)
		}
		g := lease.Grant()
		return &hold.Taken{Lease: lease, Data: nextData{Task: newTaskData(t), Token: tokenOf(g, t.ID), Grant: &g}, Text: func(p *term.Printer) {
			printClaimed(p, t, g)
		}}, nil
	})
}
