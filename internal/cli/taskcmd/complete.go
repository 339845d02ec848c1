package taskcmd

import (
	"context"

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
	n.TTL = session.DurationFlag{Min: lease.MinTTL, Max: lease.MaxTTL, None: true}
	f := cmd.Flags()
	f.BoolVar(&n.claim, "next", false, "claim the next task in the same commit")
	f.StringVar(&n.section, "section", "", "with --next: only from this section")
	f.StringVar(&n.label, "label", "", "with --next: only with this label")
	f.Var(&n.TTL, "ttl", "with --next: expire after this long without a heartbeat")
	f.StringVar(&n.RequestID, "request-id", "", "with --next: repeat a request with this id: it has one effect")
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
func (o *verbOptions) doNext(ctx context.Context, s *session.Session, st *store.Store, refs []string, after func()) error {
	d, err := o.request(ctx, s, st, refs)
	if err != nil {
		return err
	}
	n := o.then
	claim, err := n.claimRequest(ctx, s)
	if err != nil {
		return err
	}
	claim.Wait = 0
	out, next, err := task.ChangeAndNext(ctx, st, d, task.NextRequest{Section: n.section, Label: n.label, Acquire: claim})
	if err != nil {
		return err
	}
	after()
	data := completedData{changedData: changedData{taskList(out.Tasks), out.Repeated}}
	var claimed []string
	if next != nil {
		claimed = []string{next.Task.ID}
		n.Keep(s, *next.Grant, claim.Process)
		data.Next = &nextData{Task: newTaskData(next.Task), Token: tokenOf(*next.Grant, next.Task.ID), Grant: next.Grant}
	}
	return s.AnswerNames(data, claimed, func(p *term.Printer) {
		changedText(s, p, out, o.did, o.would)
		if next == nil {
			p.Line("No task is ready.")
			return
		}
		printClaimedTask(s, p, next.Task, *next.Grant, nil)
	})
}

func newTasksCompleteCmd(s *session.Session) *cobra.Command {
	o := &verbOptions{verb: task.Complete, did: "Completed", would: "Would complete"}
	cmd := &cobra.Command{
		Use:   "complete TASK...",
		Short: "Complete tasks; tasks that wait for them can start",
		Long: `Complete tasks. Their locks are free afterwards, and tasks that waited for them can
start.

With --token it succeeds only while that claim is in force; repeated, it succeeds
again. --next claims the next task in the same commit, as next --claim would: both
happen or neither. If the completion is refused, nothing is claimed. If no task is
ready, the completion stands, the exit code is 0 and data.next in JSON is null.
--quiet prints only the id of the claimed task, or nothing.

Exit codes:
  5  another owner works on a task
  7  the claim was taken over; nothing changed`,
		Example: `  tasklock tasks complete t1 --token "$TOKEN" --summary "fixed" --commit 4f2a1c0 --test TestParse
  tasklock tasks complete t1 --next
  ID=$(tasklock next --claim -q); while [ "$ID" ]; do work-on "$ID"; ID=$(tasklock tasks complete "$ID" --next -q); done`,
	}
	o.nextFlags(cmd)
	o.reasonFlag(cmd, "the reason, for the history")
	o.resultFlags(cmd)
	o.removeFlag(cmd)
	return verbCmd(s, o, cmd, task.InProgress, task.Pending, task.Review, task.Blocked)
}
