package taskcmd

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// nextFlags are those of complete --next: the claim that comes with it.
func (o *verbOptions) nextFlags(cmd *cobra.Command) {
	n := &nextOptions{}
	n.NoWait = true
	n.Ttl = session.DurationFlag{Min: lease.MinTTL, Max: lease.MaxTTL, None: true}
	f := cmd.Flags()
	f.BoolVar(&n.claim, "next", false, "claim the next task in the same commit")
	f.StringVar(&n.section, "section", "", "with --next: only from this section")
	f.StringVar(&n.label, "label", "", "with --next: only with this label")
	f.Var(&n.Ttl, "ttl", "with --next: expire after this long without a heartbeat")
	f.StringVar(&n.RequestID, "request-id", "", "with --next: repeating a request with this id has one effect")
	n.KeepAliveFlag(cmd)
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
			return session.Usagef("--%s goes with --next", name)
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
func (o *verbOptions) doNext(ctx context.Context, s *session.Session, st *store.Store, cmd *cobra.Command, v task.Verb, refs []string, after func()) error {
	d, err := o.request(ctx, s, st, cmd, v, refs)
	if err != nil {
		return err
	}
	n := o.then
	claim, err := n.claimRequest(s)
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
		n.Keep(s, *next.Grant, claim.Process)
		data.Next = &nextData{Task: newTaskData(next.Task), Token: tokenOf(*next.Grant, next.Task.ID), Grant: next.Grant}
	}
	if s.Quiet && !s.JSON {
		p := s.Printer()
		if next != nil {
			p.Line("%s", next.Task.ID)
		}
		return p.Flush()
	}
	return s.Answer(data, func(p *term.Printer) {
		changedText(s, p, out, "Completed", "Would complete")
		if next == nil {
			p.Line("No task is ready.")
			return
		}
		printClaimedTask(s, p, next.Task, *next.Grant, nil)
	})
}

// printClaimedTask prints a claim, and to whoever reads it here what is to be done.
func printClaimedTask(s *session.Session, p *term.Printer, t task.Task, g lease.Grant, made *madeWorktree) {
	printClaimed(p, s.Did("Claimed", "Would claim"), t, g, s.DryRun)
	printWorktree(p, made)
	agent := s.Identity().Agent
	if agent && !s.DryRun {
		p.Line("When it is done: %s", s.CommandLine("tasks", "complete", t.ID, "--token", strconv.FormatInt(tokenOf(g, t.ID), 10), "--next"))
	}
	if agent || p.Wide {
		taskText(s, p, t)
	}
}

// taskText prints the text of a task: it is what the caller asked for, an order for
// its work.
func taskText(s *session.Session, p *term.Printer, t task.Task) {
	if t.Description == "" && taskName(t) == t.ID+` "`+t.Title+`"` {
		return // it is all in the line above
	}
	text, left := t.Text()
	p.Line("")
	p.Text(text)
	if left > 0 {
		p.Line("… and %d bytes more: %s", left, s.CommandLine("tasks", "show", t.ID))
	}
}
