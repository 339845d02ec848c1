package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

type tasksListOptions struct {
	whose
	status          []string
	section, label  string
	ready, archived bool
	stalled         bool
	olderThan       durationFlag
	limit           int
}

func newTasksListCmd(a *App) *cobra.Command {
	o := &tasksListOptions{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks and who works on them",
		Long: `List the tasks by section, priority and age, and who works on them. A task whose
worker is gone counts as pending again. --mine and --of OWNER
narrow it to what one owner and its children work on. --older-than only warns.

In a pipe the fields are separated by tabs: id, status, priority, section, locked
by, token, expiry, labels, waits for, title. --quiet prints the ids alone.`,
		Example: `  tasklock tasks list --ready
  tasklock tasks list --status pending,failed --section Backend
  tasklock tasks list --older-than 2h`,
		Args: noArgs,
	}
	cmd.RunE = a.does(func(ctx context.Context, _ []string) error {
		o.defaults(a, cmd)
		return o.run(ctx, a)
	})
	f := cmd.Flags()
	o.olderThan = durationFlag{min: time.Second, max: 3650 * 24 * time.Hour}
	f.StringSliceVar(&o.status, "status", nil, "only with one of these statuses, separated by commas")
	f.StringVar(&o.section, "section", "", "only from this section")
	f.StringVar(&o.label, "label", "", "only with this label")
	o.whose.flags(cmd)
	f.BoolVar(&o.ready, "ready", false, "only what could be claimed now")
	f.BoolVar(&o.archived, "archived", false, "what was archived instead")
	f.Var(&o.olderThan, "older-than", "warn about work without a sign of life for longer")
	f.IntVar(&o.limit, "limit", 0, "at most so many; 0: all")
	a.offlineFlag(cmd)
	return a.completeFlags(cmd)
}

// defaults bounds what a coding agent has to read.
func (o *tasksListOptions) defaults(a *App, cmd *cobra.Command) {
	if !cmd.Flags().Changed("limit") && !a.JSON && a.Identity().Agent {
		o.limit = agentLimit
	}
}

func (o *tasksListOptions) run(ctx context.Context, a *App) error {
	r := task.ListRequest{
		Section: o.section, Label: o.label, Owner: o.owner(a), Caller: a.Identity().Owner,
		Ready: o.ready, Archived: o.archived, Stalled: o.stalled,
	}
	for _, s := range o.status {
		status, err := parseStatus(s)
		if err != nil {
			return err
		}
		r.Status = append(r.Status, status)
	}
	if o.limit < 0 {
		return usagef("--limit: must not be negative")
	}
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	if o.section != "" { // a name that is misspelt is not an empty section
		if _, err := task.Sections(ctx, st, o.section); err != nil {
			return err
		}
	}
	out, err := task.List(ctx, st, r)
	if err != nil {
		return err
	}
	o.warn(a, out.Tasks)
	return o.print(a, out.Tasks)
}

func (o *tasksListOptions) print(a *App, all []task.Info) error {
	shown := all
	if o.limit > 0 && len(shown) > o.limit {
		shown = shown[:o.limit]
		defer a.note("%d of %d tasks. Narrow it with --status, --section, --label, --owner or --ready; --limit 0 shows all.", len(shown), len(all))
	}
	if a.Quiet && !a.JSON {
		p := a.printer()
		for _, t := range shown {
			p.line("%s", t.ID)
		}
		return p.flush()
	}
	data := struct {
		Tasks []taskInfo `json:"tasks"`
		Total int        `json:"total"`
	}{make([]taskInfo, len(shown)), len(all)}
	for i, t := range shown {
		data.Tasks[i] = newTaskInfo(t)
	}
	return a.answer(data, func(p *printer) {
		p.wide = p.wide || a.Identity().Agent
		if len(shown) == 0 && p.wide {
			p.line("No tasks.")
			return
		}
		p.tasks(shown)
	})
}

func (o *tasksListOptions) warn(a *App, tasks []task.Info) {
	for _, t := range tasks {
		if t.Status != task.InProgress || t.Lock == nil || !o.olderThan.given {
			continue
		}
		if silent := a.Now().Sub(t.Lock.HeartbeatAt); silent > o.olderThan.value {
			a.warn("%s looks abandoned: %s gave no sign of life for %s (since %s).", taskName(t.Task), short(t.ClaimedBy, 60), rough(silent), stamp(t.Lock.HeartbeatAt))
		}
	}
}

func parseStatus(s string) (task.Status, error) {
	status := task.Status(strings.ToLower(strings.TrimSpace(s)))
	if !slices.Contains(task.Statuses, status) {
		var names []string
		for _, n := range task.Statuses {
			names = append(names, string(n))
		}
		return "", usagef("--status: must be one of %s, not %q", strings.Join(names, ", "), short(s, 40))
	}
	return status, nil
}

// tasks prints a table of them.
func (p *printer) tasks(tasks []task.Info) {
	var rows [][]styled
	for _, t := range tasks {
		rows = append(rows, p.taskRow(t))
	}
	p.table([]string{"ID", "STATUS", "PRIORITY", "SECTION", "LOCKED BY", "EXPIRES", "TITLE"}, rows)
}

var statusStyle = map[task.Status]style{
	task.InProgress: yellow, task.Completed: green, task.Failed: red, task.Blocked: red, task.Skipped: faint,
}

func (p *printer) taskRow(t task.Info) []styled {
	look, owner, expires, token := normal, "", "", ""
	if l := t.Lock; l != nil {
		owner, expires = l.Owner, endStamp(l.ExpiresAt)
		if p.wide {
			owner, expires = short(l.Owner, 40), p.endIn(l.ExpiresAt)
		}
		if l.State != lease.Held {
			look, owner = red, fmt.Sprintf("%s (%s)", owner, l.State)
		}
		token = strconv.FormatInt(l.Token, 10)
	}
	who, status := look.of(owner), statusStyle[t.Status].of(string(t.Status))
	if !p.wide {
		return row(t.ID, status, t.Priority, t.Section, who, token, expires, strings.Join(t.Labels, ","), strings.Join(t.WaitsFor, ","), t.Title)
	}
	title := short(t.Title, 60)
	for _, l := range t.Labels {
		title += " #" + l
	}
	if len(t.WaitsFor) > 0 {
		title += " (waits for " + short(strings.Join(t.WaitsFor, ", "), 40) + ")"
	}
	return row(strong.of(t.ID), status, priorityName(t.Priority), t.Section, who, expires, title)
}
