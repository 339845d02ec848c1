package problem

import (
	"strings"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// OwnStore is the command that helps if no default store can be written.
const OwnStore = "tasklock --store sqlite:PATH init"

// onTasks reports whether the caller works with tasks, not with bare locks.
func (c Caller) onTasks() bool { return c.group() == "tasks" || c.group() == "next" }

func (c Caller) afterLoss(e *lease.LostError) string {
	switch {
	case c.onTasks() && !strings.Contains(e.Key, " "):
		return c.Line("tasks", "show", e.Key)
	case c.Command == "next": // the task of an earlier request
		return c.Line("next", "--claim")
	case strings.HasPrefix(e.Key, "lease "):
		return c.Line("list", "--mine")
	}
	if e.MaxHold > 0 && c.Longer != nil {
		if longer := c.Longer(2 * e.MaxHold); longer != nil {
			return c.Line(longer...)
		}
	}
	return c.Line("acquire", e.Key)
}

func (c Caller) afterRefusal(e *lease.OwnerError) string {
	switch {
	case c.onTasks():
		return c.Line("tasks", "show", e.Key)
	case strings.HasPrefix(e.Key, "lease "):
		return c.Line("list")
	}
	return c.Line("show", e.Key)
}

// afterState shows what blocks the task, else the task itself.
func (c Caller) afterState(e *task.StateError) string {
	if len(e.WaitsFor) > 0 {
		if kind, name := lease.KindOf(e.WaitsFor[0]); kind == lease.Section {
			return c.Line("sections", "show", name)
		}
		return c.Line("tasks", "show", e.WaitsFor[0])
	}
	if name, ok := strings.CutPrefix(e.ID, "section "); ok {
		return c.Line("sections", "show", name)
	}
	return c.Line("tasks", "show", e.ID)
}

// afterBusy waits for the holders, or releases what the caller holds.
func (c Caller) afterBusy(e *lease.BusyError) string {
	const most = 10
	if len(e.Holders) == 0 {
		return ""
	}
	words := []string{"wait"}
	if lease.MayUse(c.Owner, e.Holders[0].Owner) {
		words = []string{"release"}
	}
	for i, h := range e.Holders {
		if words[0] == "release" && !lease.MayUse(c.Owner, h.Owner) || i == most {
			break
		}
		words = append(words, h.Key)
	}
	return c.Line(words...)
}

// search lists what exists in place of what was not found.
func (c Caller) search(e *task.NotFoundError) string {
	switch {
	case e.What == "section":
		return c.Line("sections", "list")
	case e.What == "runner":
		return c.Line("runner", "list")
	case e.Archived:
		return c.Line("tasks", "show", e.Ref)
	}
	return c.Line("tasks", "list")
}
