package cli

import (
	"errors"
	"strings"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/task"
)

// taskDetails are the facts of an error about tasks, for programs.
func taskDetails(err error) map[string]any {
	var (
		state   *task.StateError
		circle  *task.CycleError
		busy    *lock.BusyError
		missing *task.NotFoundError
		several *task.AmbiguousError
		names   *lock.AmbiguousError
		inUse   *lock.InUseError
	)
	switch {
	case errors.As(err, &state):
		return map[string]any{"id": state.ID, "status": state.Status, "waitsFor": append([]string{}, state.WaitsFor...)}
	case errors.As(err, &circle):
		return map[string]any{"cycle": circle.IDs}
	case errors.As(err, &busy):
		return busyDetails(busy)
	case errors.As(err, &missing):
		return map[string]any{missing.What: missing.Ref}
	case errors.As(err, &several):
		var matches []map[string]any
		for _, t := range several.Matches {
			matches = append(matches, map[string]any{"id": t.ID, "title": t.Title, "status": t.Status})
		}
		return map[string]any{"ref": several.Ref, "matches": matches}
	case errors.As(err, &names):
		var matches []map[string]any
		for _, id := range names.IDs {
			matches = append(matches, map[string]any{"id": id})
		}
		return map[string]any{"ref": names.Name, "matches": matches}
	case errors.As(err, &inUse):
		return map[string]any{"key": inUse.Key, "inside": inUse.Inside}
	}
	return nil
}

func busyDetails(busy *lock.BusyError) map[string]any {
	d := map[string]any{"holders": busy.Holders}
	if len(busy.Holders) > 0 {
		h := busy.Holders[0]
		d["taskId"], d["lockedBy"], d["expiresAt"] = h.Key, h.Owner, h.ExpiresAt
	}
	return d
}

// listed prints what an error names more than one of.
func (p *printer) listed(err error) {
	const most = 10
	var several *task.AmbiguousError
	var busy *lock.BusyError
	n := 0
	switch {
	case errors.As(err, &several):
		n = len(several.Matches)
		for _, t := range several.Matches[:min(n, most)] {
			p.line("  %s  %s  %s", t.ID, string(t.Status), short(t.Title, 80))
		}
	case errors.As(err, &busy) && len(busy.Holders) > 1:
		n = len(busy.Holders)
		for _, h := range busy.Holders[:min(n, most)] {
			p.line("  %s  held by %s, %s", h.Key, short(h.Owner, 60), p.ends(h.ExpiresAt))
		}
	}
	if n > most {
		p.line("  … and %d more", n-most)
	}
}

// taskNext is the command that helps after an error about tasks, or nothing.
func (a *App) taskNext(err error) string {
	var (
		lost    *lock.LostError
		owner   *lock.OwnerError
		state   *task.StateError
		circle  *task.CycleError
		busy    *lock.BusyError
		missing *task.NotFoundError
		several *task.AmbiguousError
		names   *lock.AmbiguousError
		inUse   *lock.InUseError
	)
	group, _, _ := strings.Cut(a.command, " ")
	onTasks := group == "tasks" || group == "next"
	switch {
	case errors.As(err, &state):
		return a.afterState(state)
	case errors.As(err, &circle):
		if group == "sections" {
			return a.commandLine("sections", "show", circle.IDs[0])
		}
		return a.commandLine("tasks", "show", circle.IDs[0])
	case errors.As(err, &busy) && len(busy.Holders) > 0:
		return a.afterBusy(busy)
	case errors.As(err, &several) && len(several.Matches) > 0:
		return a.commandLine("tasks", "show", several.Matches[0].ID)
	case errors.As(err, &names) && len(names.IDs) > 0:
		return a.commandLine("tasks", "show", names.IDs[0])
	case errors.As(err, &missing) && missing.What == "section":
		return a.commandLine("sections", "list")
	case errors.As(err, &missing) && missing.What == "runner":
		return a.commandLine("runner", "list")
	case errors.As(err, &missing) && missing.Archived:
		return a.commandLine("tasks", "show", missing.Ref)
	case errors.As(err, &missing):
		return a.commandLine("tasks", "list")
	case errors.Is(err, task.ErrNothingReady):
		return a.again()
	case errors.As(err, &inUse):
		return a.commandLine("list", "--mine")
	case onTasks && errors.As(err, &lost) && !strings.Contains(lost.Key, " "):
		return a.commandLine("tasks", "show", lost.Key)
	case onTasks && errors.As(err, &owner):
		return a.commandLine("tasks", "show", owner.Key)
	}
	return ""
}

// afterState shows what is in the way, else the task itself.
func (a *App) afterState(e *task.StateError) string {
	if len(e.WaitsFor) > 0 {
		if kind, name := lock.KindOf(e.WaitsFor[0]); kind == lock.Section {
			return a.commandLine("sections", "show", name)
		}
		return a.commandLine("tasks", "show", e.WaitsFor[0])
	}
	if name, ok := strings.CutPrefix(e.ID, "section "); ok {
		return a.commandLine("sections", "show", name)
	}
	return a.commandLine("tasks", "show", e.ID)
}

// afterBusy waits for those who work, or gives back what the caller holds.
func (a *App) afterBusy(e *lock.BusyError) string {
	words := []string{"wait"}
	if lock.Uses(a.Identity().Owner, e.Holders[0].Owner) {
		words = []string{"release"}
	}
	for i, h := range e.Holders {
		if words[0] == "release" && !lock.Uses(a.Identity().Owner, h.Owner) || i == 10 {
			break
		}
		words = append(words, h.Key)
	}
	return a.commandLine(words...)
}
