package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// nextFlags are those of complete --next: the claim that comes with it.
func (o *verbOptions) nextFlags(cmd *cobra.Command) {
	n := &nextOptions{}
	n.noWait = true
	n.ttl = durationFlag{min: lease.MinTTL, max: lease.MaxTTL, none: true}
	f := cmd.Flags()
	f.BoolVar(&n.claim, "next", false, "claim the next task in the same commit")
	f.StringVar(&n.section, "section", "", "with --next: only from this section")
	f.StringVar(&n.label, "label", "", "with --next: only with this label")
	f.Var(&n.ttl, "ttl", "with --next: expire after this long without a heartbeat")
	f.StringVar(&n.requestID, "request-id", "", "with --next: repeating a request with this id has one effect")
	n.keepAliveFlag(cmd)
	for _, name := range []string{"keep-alive", "ends-with"} {
		f.Lookup(name).Usage = "with --next: " + f.Lookup(name).Usage
	}
	o.then = n
}

func (o *nextOptions) wanted() bool { return o != nil && o.claim }

// alone refuses flags of the claim where there is none.
func (o *nextOptions) alone(cmd *cobra.Command) error {
	for _, name := range []string{"section", "label", "ttl", "request-id", "keep-alive", "ends-with"} {
		if o != nil && !o.claim && cmd.Flags().Changed(name) {
			return usagef("--%s goes with --next", name)
		}
	}
	return nil
}

// completedData is what complete --next answers: next is null if no task is ready.
type completedData struct {
	changedData
	Next *nextData `json:"next"`
}

// doNext completes tasks and claims the next one, both or neither.
func (o *verbOptions) doNext(ctx context.Context, a *App, st *store.Store, cmd *cobra.Command, v task.Verb, refs []string, after func()) error {
	d, err := o.request(ctx, a, st, cmd, v, refs)
	if err != nil {
		return err
	}
	n := o.then
	claim, err := n.claimRequest(a)
	if err != nil {
		return err
	}
	claim.Wait = 0
	out, next, err := task.DoAndNext(ctx, st, d, task.NextRequest{Section: n.section, Label: n.label, Acquire: claim})
	if err != nil {
		return err
	}
	after()
	data := completedData{changedData: changedData{taskList(out.Tasks), out.Repeated}}
	if next != nil {
		n.keep(a, *next.Grant, claim.Process)
		data.Next = &nextData{Task: newTaskData(next.Task), Token: tokenOf(*next.Grant, next.Task.ID), Grant: next.Grant}
	}
	if a.Quiet && !a.JSON {
		p := a.printer()
		if next != nil {
			p.line("%s", next.Task.ID)
		}
		return p.flush()
	}
	return a.answer(data, func(p *printer) {
		a.changedText(p, out, "Completed", "Would complete")
		if next == nil {
			p.line("No task is ready.")
			return
		}
		a.claimedTask(p, next.Task, *next.Grant, nil)
	})
}

// claimedTask prints a claim, and to whoever reads it here what is to be done.
func (a *App) claimedTask(p *printer, t task.Task, g lease.Grant, made *madeWorktree) {
	p.claimed(a.did("Claimed", "Would claim"), t, g, a.DryRun)
	p.worktree(made)
	agent := a.Identity().Agent
	if agent && !a.DryRun {
		p.line("When it is done: %s", a.commandLine("tasks", "complete", t.ID, "--token", strconv.FormatInt(tokenOf(g, t.ID), 10), "--next"))
	}
	if agent || p.wide {
		a.taskText(p, t)
	}
}

// taskText prints the text of a task: it is what the caller asked for, an order for
// its work.
func (a *App) taskText(p *printer, t task.Task) {
	if t.Description == "" && taskName(t) == t.ID+` "`+t.Title+`"` {
		return // it is all in the line above
	}
	text, left := t.Text()
	p.line("")
	p.text(text)
	if left > 0 {
		p.line("… and %d bytes more: %s", left, a.commandLine("tasks", "show", t.ID))
	}
}
