package taskcmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
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

type tasksListOptions struct {
	session.Whose
	status          []string
	section, label  string
	ready, archived bool
	stalled         bool
	olderThan       session.DurationFlag
	page            session.Page
}

func newTasksListCmd(s *session.Session) *cobra.Command {
	o := &tasksListOptions{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks and who works on them",
		Long: `List the tasks by section, priority and age, and who works on them. A task whose
worker is gone counts as pending. --mine and --of OWNER show only the tasks of one
owner and its children. --older-than only warns. --limit and --after read the list
page by page, in the order of the ids as text.

In a pipe, tabs separate the fields: id, status, priority, section, locked by, token,
expiry, labels, waits for, title. --quiet prints only the ids. In JSON, a page has
"next", the id to give to --after for the next page, unless it is the last one;
otherwise "total" counts the tasks.`,
		Example: `  tasklock tasks list --ready
  tasklock tasks list --status pending,failed --section Backend
  tasklock tasks list --older-than 2h
  tasklock tasks list --limit 50 --after t120`,
		Args: session.NoArgs,
	}
	cmd.RunE = o.runE(s, cmd)
	f := cmd.Flags()
	o.olderThan = session.DurationFlag{Min: time.Second, Max: 3650 * 24 * time.Hour}
	f.StringSliceVar(&o.status, "status", nil, "only tasks with these statuses, separated by commas")
	f.StringVar(&o.section, "section", "", "only from this section")
	f.StringVar(&o.label, "label", "", "only with this label")
	o.Whose.Flags(cmd)
	f.BoolVar(&o.ready, "ready", false, "only tasks that can be claimed now")
	f.BoolVar(&o.archived, "archived", false, "show archived tasks instead")
	f.Var(&o.olderThan, "older-than", "warn about work without a heartbeat for longer")
	o.page.Flags(cmd, "ID")
	session.OfflineFlag(cmd)
	return completeFlags(s, cmd)
}

func (o *tasksListOptions) runE(s *session.Session, cmd *cobra.Command) func(*cobra.Command, []string) error {
	return s.Run(func(ctx context.Context, _ []string) error {
		if err := o.page.Begin(s, cmd); err != nil {
			return err
		}
		return o.run(ctx, s)
	})
}

func (o *tasksListOptions) run(ctx context.Context, s *session.Session) error {
	r := task.ListRequest{
		Section: o.section, Label: o.label, Owner: o.Owner(s), Caller: s.Identity().Owner,
		Ready: o.ready, Archived: o.archived, Stalled: o.stalled,
	}
	if o.page.Asked {
		r.After, r.Limit = o.page.After, o.page.Limit
	}
	for _, text := range o.status {
		status, err := parseStatus(text)
		if err != nil {
			return err
		}
		r.Status = append(r.Status, status)
	}
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	if o.section != "" { // a name that is misspelt is not an empty section
		if err := task.FindSection(ctx, st, o.section); err != nil {
			return err
		}
	}
	out, err := task.List(ctx, st, r)
	if err != nil {
		return err
	}
	o.warn(s, out.Tasks)
	return o.print(s, out)
}

// listedTasks is a list of tasks in JSON: a page of it, or all with their number.
type listedTasks struct {
	Tasks []taskInfo `json:"tasks"`
	Total *int       `json:"total,omitempty"`
	Next  string     `json:"next,omitempty"`
}

func (o *tasksListOptions) print(s *session.Session, out task.ListResult) error {
	shown, all, data := out.Tasks, len(out.Tasks), listedTasks{Next: out.Next}
	defer s.More(out.Next)
	if !o.page.Asked {
		data.Total = &all
	}
	if n := o.page.Limit; n > 0 && all > n {
		shown = shown[:n]
		defer s.Note("%d of %d tasks. Narrow it with --status, --section, --label, --owner or --ready; --limit 0 shows all.", n, all)
	}
	data.Tasks = taskInfos(shown)
	ids := term.Each(shown, func(t task.Info) string { return t.ID })
	return s.AnswerNames(data, ids, func(p *term.Printer) {
		p.Wide = p.Wide || s.Identity().Agent
		printTasks(p, shown)
	})
}

func (o *tasksListOptions) warn(s *session.Session, tasks []task.Info) {
	for _, t := range tasks {
		if t.Status != task.InProgress || t.Lock == nil || !o.olderThan.Given {
			continue
		}
		if silent := s.Now().Sub(t.Lock.HeartbeatAt); silent > o.olderThan.Value {
			s.Warn("%s looks abandoned: %s sent no heartbeat for %s (since %s).", taskName(t.Task), term.Short(t.ClaimedBy, 60), term.Rough(silent), term.Stamp(t.Lock.HeartbeatAt))
		}
	}
}

func parseStatus(s string) (task.Status, error) {
	status := task.Status(strings.ToLower(strings.TrimSpace(s)))
	if !slices.Contains(task.Statuses, status) {
		return "", session.Usagef("--status: must be one of %s, not %q", strings.Join(statusNames(), ", "), term.Short(s, 40))
	}
	return status, nil
}

func statusNames() []string {
	return term.Each(task.Statuses, func(status task.Status) string { return string(status) })
}

// printTasks prints a table of them.
func printTasks(p *term.Printer, tasks []task.Info) {
	var rows [][]term.Text
	for _, t := range tasks {
		rows = append(rows, taskRow(p, t))
	}
	p.List("No tasks.", []string{"ID", "STATUS", "PRIORITY", "SECTION", "LOCKED BY", "EXPIRES", "TITLE"}, rows)
}

var statusStyle = map[task.Status]term.Style{
	task.InProgress: term.Yellow, task.Completed: term.Green, task.Failed: term.Red, task.Blocked: term.Red, task.Skipped: term.Faint,
}

func taskRow(p *term.Printer, t task.Info) []term.Text {
	look, owner, expires, token := term.Normal, "", "", ""
	if l := t.Lock; l != nil {
		owner, expires = l.Owner, view.EndStamp(l.ExpiresAt)
		if p.Wide {
			owner, expires = term.Short(l.Owner, 40), view.EndIn(p, l.ExpiresAt)
		}
		if l.State != lease.Held {
			look, owner = term.Red, fmt.Sprintf("%s (%s)", owner, l.State)
		}
		token = strconv.FormatInt(l.Token, 10)
	}
	who, status := look.Of(owner), statusStyle[t.Status].Of(string(t.Status))
	if !p.Wide {
		return term.Row(t.ID, status, t.Priority, t.Section, who, token, expires, strings.Join(t.Labels, ","), strings.Join(t.WaitsFor, ","), t.Title)
	}
	title := term.Short(t.Title, 60)
	for _, l := range t.Labels {
		title += " #" + l
	}
	if len(t.WaitsFor) > 0 {
		title += " (waits for " + term.Short(strings.Join(t.WaitsFor, ", "), 40) + ")"
	}
	return term.Row(term.Strong.Of(t.ID), status, priorityName(t.Priority), t.Section, who, expires, title)
}

func newTasksStalledCmd(s *session.Session) *cobra.Command {
	o := &tasksListOptions{stalled: true}
	cmd := &cobra.Command{
		Use:   "stalled",
		Short: "List the tasks whose worker is dead or silent",
		Long: `List the tasks in progress whose worker is provably dead, or sent no heartbeat for
its whole ttl. You need not do anything: the next claim takes such a task over, and
next offers it. The fields are those of list.`,
		Args: session.NoArgs,
	}
	cmd.RunE = o.runE(s, cmd)
	cmd.Flags().StringVar(&o.section, "section", "", "only from this section")
	o.page.LimitFlag(cmd)
	return completeFlags(s, cmd)
}

func newTasksStatsCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Count tasks by status and section",
		Long: `Count tasks by status and section. Of more than 10,000 tasks it counts the first
10,000, in the order of their ids as text, and says so.

In a pipe, tabs separate the fields: section (- for none, * for all), total, and one
number for each status: pending, in_progress, review, completed, failed, blocked,
skipped. In JSON, "capped" is true if there are more tasks.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error {
			stats, err := task.Count(ctx, st)
			if err != nil {
				return err
			}
			for _, status := range task.Statuses { // programs find every one
				stats.Status[status] += 0
			}
			if stats.Capped {
				defer s.Note("There are more than %d tasks: the others are not counted.", stats.Total)
			}
			return s.Answer(stats, func(p *term.Printer) {
				p.Wide = p.Wide || s.Identity().Agent
				printStats(p, stats)
			})
		}),
	}
}

func printStats(p *term.Printer, s task.Stats) {
	head := []string{"SECTION", "TOTAL"}
	for _, status := range task.Statuses {
		head = append(head, string(status))
	}
	line := func(name string, counts map[task.Status]int) []term.Text {
		total := 0
		for _, n := range counts {
			total += n
		}
		fields := term.Row(term.Strong.Of(name), total)
		for _, status := range task.Statuses {
			fields = append(fields, statusStyle[status].Of(strconv.Itoa(counts[status])))
		}
		return fields
	}
	var rows [][]term.Text
	for _, name := range slices.Sorted(maps.Keys(s.Sections)) {
		rows = append(rows, line(cmp.Or(name, "-"), s.Sections[name]))
	}
	p.Table(head, append(rows, line("*", s.Status)))
	if p.Wide {
		p.Line("%d ready, %d stalled, %s done.", s.Ready, s.Stalled, fmt.Sprintf("%.0f%%", s.Completed))
	}
}
