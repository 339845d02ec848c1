package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

func newTasksShowCmd(a *App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show TASK",
		Short: "Show everything about one task",
		Long: `Show everything about one task, an archived one too. It is named by its id, the
beginning of its id, or its title.`,
		Args:              oneTask,
		ValidArgsFunction: a.firstTask,
		RunE:              a.does(func(ctx context.Context, refs []string) error { return showTask(ctx, a, refs[0]) }),
	}
	a.offlineFlag(cmd)
	return cmd
}

func showTask(ctx context.Context, a *App, ref string) error {
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	i, err := task.Show(ctx, st, ref)
	if err != nil {
		return err
	}
	return a.answer(map[string]any{"task": newTaskInfo(i)}, func(p *printer) { p.task(i) })
}

func (p *printer) task(i task.Info) {
	var rows [][2]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, [2]string{name, value})
		}
	}
	at := func(name string, t *time.Time) {
		if t != nil && !t.IsZero() {
			add(name, p.when(*t))
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
		add("last seen", p.when(l.HeartbeatAt))
		if l.State == lease.Held {
			add("expires", p.expiry(l.ExpiresAt))
		} else {
			add("lock", string(l.State)+" since "+p.expiry(l.ExpiresAt))
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
	p.fields(rows)
	if i.Description != "" {
		p.line("")
		p.text(i.Description)
	}
}
