package taskcmd

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func newTasksShowCmd(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show TASK",
		Short: "Show everything about one task",
		Long: `Show everything about one task, even an archived one. Name it by its id, the
beginning of its id, or its title.`,
		Args:              oneTask,
		ValidArgsFunction: firstTask(s),
		RunE:              s.RunStore(func(ctx context.Context, st *store.Store, refs []string) error { return showTask(ctx, s, st, refs[0]) }),
	}
	session.OfflineFlag(cmd)
	return cmd
}

func showTask(ctx context.Context, s *session.Session, st *store.Store, ref string) error {
	i, err := task.Show(ctx, st, ref)
	if err != nil {
		return err
	}
	return s.Answer(map[string]any{"task": newTaskInfo(i)}, func(p *term.Printer) { printTask(p, i) })
}

func printTask(p *term.Printer, i task.Info) {
	var rows term.Fields
	at := func(name string, t *time.Time) {
		if t != nil && !t.IsZero() {
			rows.Add(name, p.When(*t))
		}
	}
	list := func(name string, words []string) { rows.Add(name, strings.Join(words, ", ")) }
	status := string(i.Status)
	if i.Stalled {
		status += " (stalled: its worker is " + string(i.Lock.State) + ")"
	} else if i.Ready {
		status += " (ready)"
	}
	rows.Add("id", i.ID)
	rows.Add("title", i.Title)
	list("aliases", i.Aliases)
	rows.Add("status", status)
	rows.Add("section", i.Section)
	rows.Add("priority", priorityName(i.Priority))
	list("labels", i.Labels)
	list("depends on", i.DependsOn)
	list("waits for", i.WaitsFor)
	list("needed by", i.Dependents)
	rows.Add("blocked because", i.BlockedReason)
	rows.Add("claimed by", i.ClaimedBy)
	at("claimed", i.ClaimedAt)
	if i.Lock != nil {
		addLock(p, &rows, i.Lock)
	}
	rows.Add("worktree", i.Worktree)
	rows.Add("progress", i.Progress)
	if i.Attempts > 0 {
		rows.Add("attempts", strconv.Itoa(i.Attempts))
	}
	if r := i.Result; r != nil {
		rows.Add("result", r.Summary)
		list("commits", r.Commits)
		list("tests", r.Tests)
	}
	at("created", &i.CreatedAt)
	at("updated", &i.UpdatedAt)
	at("completed", i.CompletedAt)
	rows.Add("completed by", i.CompletedBy)
	p.Fields(rows)
	if i.Description != "" {
		p.Line("")
		p.Text(i.Description)
	}
}

// addLock adds what is known of the lock of a task.
func addLock(p *term.Printer, rows *term.Fields, l *lease.Info) {
	rows.Add("locked by", l.Owner)
	rows.Add("token", strconv.FormatInt(l.Token, 10))
	rows.Add("last seen", p.When(l.HeartbeatAt))
	if l.State == lease.Held {
		rows.Add("expires", view.Expiry(p, l.ExpiresAt))
	} else {
		rows.Add("lock", string(l.State)+" since "+view.Expiry(p, l.ExpiresAt))
	}
	if l.Waiters > 0 {
		rows.Add("waiters", strconv.Itoa(l.Waiters))
	}
}
