package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

type nextOptions struct {
	acquireOptions
	section, label string
	claim          bool
}

func newNextCmd(a *App) *cobra.Command {
	o := &nextOptions{}
	cmd := &cobra.Command{
		Use:   "next",
		Short: "The task to work on next; --claim takes it",
		Long: `Tell which task to work on next: by section, priority and age, passing over what is
locked, blocked, or waits for others. With --claim it is claimed in the same step,
so that two workers never get the same one; --request-id makes that repeatable.

If nothing is ready the exit code is 4; with --wait it waits for something to
become ready. In a pipe the fields are separated by tabs: id, title, token.
--quiet prints the id alone. On a terminal, and to a coding agent, --claim prints
the text of the task too, up to 8 KB; "tasks show" has the whole.`,
		Example: `  tasklock next
  tasklock next --claim --section Backend --wait 10m
  ID=$(tasklock next --claim -q) && work-on "$ID" && tasklock tasks complete "$ID" --next`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("worktree") && len(args) == 1 {
				return nil // its path
			}
			return noArgs(cmd, args)
		},
	}
	cmd.RunE = a.does(func(ctx context.Context, args []string) error {
		if _, err := o.place(ctx, a, args, 0); err != nil {
			return err
		}
		return o.run(ctx, a, cmd)
	})
	o.acquireOptions.flags(cmd)
	f := cmd.Flags()
	o.keepAliveFlag(cmd)
	o.attachFlag(cmd)
	o.worktreeFlag(cmd)
	f.StringVar(&o.section, "section", "", "only from this section")
	f.StringVar(&o.label, "label", "", "only with this label")
	f.BoolVar(&o.claim, "claim", false, "claim it")
	f.Lookup("wait").Usage = "how long to wait for a task to become ready"
	return a.completeFlags(cmd)
}

func (o *nextOptions) run(ctx context.Context, a *App, cmd *cobra.Command) error {
	for _, name := range []string{"ttl", "max-hold", "request-id", "reason", "worktree", "keep-alive", "ends-with", "attach"} {
		if cmd.Flags().Changed(name) && !o.claim {
			return usagef("--%s goes with --claim", name)
		}
	}
	r := task.NextRequest{Section: o.section, Label: o.label, Claim: o.claim, Wait: a.left(o.wait.value)}
	var err error
	if o.claim {
		if r.Acquire, err = o.claimRequest(a); err != nil {
			return err
		}
	} else {
		r.Acquire.Owner = a.Identity().Owner
	}
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	a.retry = o.retry(a)
	if o.attached(a) {
		return o.holdNext(ctx, a, st, r)
	}
	out, err := o.take(ctx, a, st, r)
	if err != nil {
		return err
	}
	if out.Grant != nil {
		o.keep(a, *out.Grant, r.Acquire.Process)
	}
	var made *madeWorktree
	if out.Grant != nil {
		if made, err = o.work(ctx, a, st, task.ClaimResult{Tasks: []task.Task{out.Task}, Grant: *out.Grant}); err != nil {
			return err
		}
	}
	return o.print(a, out, made)
}

// take asks for the task, and tells when that means to wait.
func (o *nextOptions) take(ctx context.Context, a *App, st *store.Store, r task.NextRequest) (task.NextResult, error) {
	ctx, signals := newListener(ctx)
	defer signals.stop()
	r.Waiting = func() {
		signals.listen()
		o.tellWait(a, r.Wait)
	}
	out, err := task.Next(ctx, st, r)
	return out, interrupted(ctx, err)
}

func (o *nextOptions) tellWait(a *App, wait time.Duration) {
	a.waits(wait)
	a.note("Nothing is ready. Waiting up to %s for a task... (Ctrl+C to cancel)", exact(wait))
}

// retry is the command line that waits.
func (o *nextOptions) retry(a *App) []string {
	words := []string{"next"}
	for _, f := range []struct{ name, value string }{{"--section", o.section}, {"--label", o.label}} {
		if f.value != "" {
			words = append(words, f.name, f.value)
		}
	}
	if o.claim {
		words = append(words, "--claim")
	}
	wait := o.wait.value
	if wait == 0 {
		wait = 30 * time.Minute
		if a.Identity().Agent {
			wait = 90 * time.Second
		}
	}
	return o.again(a, words[0], words[1:], lease.AcquireRequest{Wait: wait})
}

type nextData struct {
	Task  taskData     `json:"task"`
	Token int64        `json:"token"` // 0: not claimed
	Grant *lease.Grant `json:"grant"`

	Worktree *madeWorktree `json:"worktree,omitempty"`
}

func (o *nextOptions) print(a *App, out task.NextResult, made *madeWorktree) error {
	data := nextData{Task: newTaskData(out.Task), Grant: out.Grant, Worktree: made}
	if out.Grant != nil {
		data.Token = tokenOf(*out.Grant, out.Task.ID)
	}
	if a.Quiet && !a.JSON {
		p := a.printer()
		p.line("%s", out.Task.ID)
		return p.flush()
	}
	return a.answer(data, func(p *printer) {
		switch {
		case !p.wide && !a.Identity().Agent:
			token := ""
			if data.Token != 0 {
				token = strconv.FormatInt(data.Token, 10)
			}
			fields := row(out.Task.ID, out.Task.Title, token)
			if made != nil {
				fields = append(fields, row(made.Path)...)
			}
			p.table(nil, [][]styled{fields})
		case out.Grant != nil:
			a.claimedTask(p, out.Task, *out.Grant, made)
		default:
			p.line("Next is %s.", taskName(out.Task))
		}
	})
}
