package mcpserver

import (
	"context"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// maxTitle is how much of a title a list has.
const maxTitle = 80

// tasks lists tasks, or shows one.
func (s *Server) tasks(ctx context.Context, c *call, in tasksArgs) (Result, error) {
	if in.Task != "" {
		return s.show(ctx, in.Task)
	}
	owner, _ := s.caller(c)
	r := task.ListRequest{Section: in.Section, Caller: owner}
	switch st := task.Status(in.Status); {
	case in.Status == "ready":
		r.Ready = true
	case in.Status == "":
		r.Status = slices.DeleteFunc(slices.Clone(task.Statuses), func(st task.Status) bool { return !st.Open() })
	case slices.Contains(task.Statuses, st):
		r.Status = []task.Status{st}
	default:
		return Result{}, &lease.InvalidError{What: "status", Rule: "must be ready or one of " + statuses()}
	}
	out, err := task.List(ctx, s.o.Store, r)
	if err != nil {
		return Result{}, err
	}
	res := Result{State: listed}
	for _, t := range out.Tasks[:min(maxLines, len(out.Tasks))] {
		res.Tasks = append(res.Tasks, taskLine(t))
	}
	if res.More = len(out.Tasks) - len(res.Tasks); res.More > 0 {
		res.Next = "call tasks with a section or a status to see others"
	}
	return res, nil
}

func statuses() string {
	var names []string
	for _, s := range task.Statuses {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// taskLine is a task in a list.
func taskLine(t task.Info) Result {
	line := Result{State: string(t.Status), Task: plainName(t.ID), Title: short(oneLine(t.Title), maxTitle), Section: plainName(t.Section)}
	if t.Ready {
		line.State = "ready"
	}
	if t.Lock != nil && t.Lock.State == lease.Held {
		line.Holder = plainName(t.Lock.Owner)
	}
	return line
}

// show gives the whole text of a task. What workers reported about it is data.
func (s *Server) show(ctx context.Context, ref string) (Result, error) {
	t, err := task.Show(ctx, s.o.Store, ref)
	if err != nil {
		return Result{}, err
	}
	line := taskLine(t)
	r := Result{State: line.State, Task: line.Task, Holder: line.Holder, Text: strings.Map(shown, t.Title+"\n\n"+t.Description)}
	r.Text = strings.TrimRight(r.Text, "\n")
	if line.Holder != "" {
		r.ExpiresInSeconds = secondsUntil(t.Lock.ExpiresAt.Time)
	}
	if len(t.WaitsFor) > 0 {
		r.Message = "waits for other tasks"
		for _, id := range t.WaitsFor[:min(maxLines, len(t.WaitsFor))] {
			r.Tasks = append(r.Tasks, Result{Task: plainName(id)})
		}
		r.More = len(t.WaitsFor) - len(r.Tasks)
	}
	about := []string{t.BlockedReason, t.Progress}
	if t.Result != nil {
		about = append(about, t.Result.Summary)
	}
	r.UntrustedText = untrusted(about...)
	return r, nil
}

// add puts a task on the list.
func (s *Server) add(ctx context.Context, c *call, in addArgs) (Result, error) {
	owner, _ := s.caller(c)
	out, err := task.Add(ctx, s.o.Store, task.AddRequest{By: owner, ID: in.RequestID, Tasks: []task.New{{
		Title: in.Title, Description: in.Description, Section: in.Section, Priority: in.Priority, DependsOn: in.DependsOn,
	}}})
	if err != nil {
		return Result{}, err
	}
	return Result{State: added, Task: plainName(out.Tasks[0].ID), Next: "call claim with this task to work on it"}, nil
}
