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
	s.OfflineFlag(cmd)
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
	var rows [][2]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, [2]string{name, value})
		}
	}
	at := func(name string, t *time.Time) {
		if t != nil && !t.IsZero() {
			add(name, p.When(*t))
		}
	}
	list := func(name string, words []string) { add(name, strings.Join(words, ", ")) }
	status := string(i.Status)
	if i.Stalled {
		status += " (stalled: its worker is " + string(i.Lock.State) + ")"
	} else if i.Ready {
		status += " (ready)"
	}
	add("id", i.ID)
	add("title", i.Title)
	list("aliases", i.Aliases)
	add("status", status)
	add("section", i.Section)
	add("priority", priorityName(i.Priority))
	list("labels", i.Labels)
	list("depends on", i.DependsOn)
	list("waits for", i.WaitsFor)
	list("needed by", i.Dependents)
	add("blocked because", i.BlockedReason)
	add("claimed by", i.ClaimedBy)
	at("claimed", i.ClaimedAt)
	if l := i.Lock; l != nil {
		add("locked by", l.Owner)
		add("token", strconv.FormatInt(l.Token, 10))
		add("last seen", p.When(l.HeartbeatAt))
		if l.State == lease.Held {
			add("expires", view.Expiry(p, l.ExpiresAt))
		} else {
			add("lock", string(l.State)+" since "+view.Expiry(p, l.ExpiresAt))
		}
		if l.Waiters > 0 {
			add("waiters", strconv.Itoa(l.Waiters))
		}
	}
	add("worktree", i.Worktree)
	add("progress", i.Progress)
	if i.Attempts > 0 {
		add("attempts", strconv.Itoa(i.Attempts))
	}
	if r := i.Result; r != nil {
		add("result", r.Summary)
		list("commits", r.Commits)
		list("tests", r.Tests)
	}
	at("created", &i.CreatedAt)
	at("updated", &i.UpdatedAt)
	at("completed", i.CompletedAt)
	add("completed by", i.CompletedBy)
	p.Fields(rows)
	if i.Description != "" {
		p.Line("")
		p.Text(i.Description)
	}
}
