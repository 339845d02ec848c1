// Package taskcmd has the commands about tasks, sections, ids and runners.
// Each New function makes the command of its name.
package taskcmd

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

func NewTasks(s *session.Session) *cobra.Command {
	return session.Group("tasks", "Manage the list of tasks",
		newTasksAddCmd(s), newTasksListCmd(s), newTasksShowCmd(s), newTasksUpdateCmd(s),
		newTasksClaimCmd(s), newTasksUnclaimCmd(s), newTasksCompleteCmd(s), newTasksFailCmd(s),
		newTasksBlockCmd(s), newTasksUnblockCmd(s), newTasksResetCmd(s), newTasksDependsCmd(s),
		newTasksDeleteCmd(s), newTasksArchiveCmd(s), newTasksStatsCmd(s), newTasksStalledCmd(s),
		newTasksHistoryCmd(s), newTasksImportCmd(s), newTasksExportCmd(s))
}

// Argument checks. A task is named by its id, the beginning of its id, or its
// title.

const quoteTitle = "a title with spaces needs quotes"

var oneTask = session.One("task", quoteTitle)

var someTasks = session.AtLeastOne("task: its id, or its title in quotes")

// taskData is a task with every field present, also those it does not have.
type taskData struct {
	ID            string       `json:"id"`
	Title         string       `json:"title"`
	Aliases       []string     `json:"aliases"`
	Description   string       `json:"description"`
	Status        task.Status  `json:"status"`
	Section       string       `json:"section"`
	Priority      int          `json:"priority"`
	DependsOn     []string     `json:"dependsOn"`
	WaitsFor      []string     `json:"waitsFor"`
	Dependents    []string     `json:"dependents"`
	Labels        []string     `json:"labels"`
	ClaimedBy     string       `json:"claimedBy"`
	ClaimedAt     *time.Time   `json:"claimedAt"`
	Attempts      int          `json:"attempts"`
	Progress      string       `json:"progress"`
	Worktree      string       `json:"worktree"`
	Result        *task.Result `json:"result"`
	BlockedReason string       `json:"blockedReason"`
	CreatedAt     time.Time    `json:"createdAt"`
	UpdatedAt     time.Time    `json:"updatedAt"`
	CompletedAt   *time.Time   `json:"completedAt"`
	CompletedBy   string       `json:"completedBy"`
}

func newTaskData(t task.Task) taskData {
	return taskData{
		ID: t.ID, Title: t.Title, Aliases: append([]string{}, t.Aliases...), Description: t.Description, Status: t.Status, Section: t.Section, Priority: t.Priority,
		DependsOn: append([]string{}, t.DependsOn...), WaitsFor: append([]string{}, t.WaitsFor...),
		Dependents: append([]string{}, t.Dependents...), Labels: append([]string{}, t.Labels...),
		ClaimedBy: t.ClaimedBy, ClaimedAt: t.ClaimedAt, Attempts: t.Attempts, Progress: t.Progress, Worktree: t.Worktree,
		Result: t.Result, BlockedReason: t.BlockedReason, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, CompletedAt: t.CompletedAt, CompletedBy: t.CompletedBy,
	}
}

func taskList(tasks []task.Task) []taskData {
	list := make([]taskData, len(tasks))
	for i, t := range tasks {
		list[i] = newTaskData(t)
	}
	return list
}

// taskInfo is a task with what its lock says.
type taskInfo struct {
	taskData
	Token   int64       `json:"token"`
	Ready   bool        `json:"ready"`
	Stalled bool        `json:"stalled"`
	Lock    *lease.Info `json:"lock"`
}

func newTaskInfo(i task.Info) taskInfo {
	return taskInfo{taskData: newTaskData(i.Task), Token: i.Token, Ready: i.Ready, Stalled: i.Stalled, Lock: i.Lock}
}

func taskInfos(list []task.Info) []taskInfo {
	infos := make([]taskInfo, len(list))
	for i, t := range list {
		infos[i] = newTaskInfo(t)
	}
	return infos
}

func taskID(t task.Task) string { return t.ID }

// eachTask prints a line for each task, and few of them if they are for a reader with
// little patience.
func eachTask(p *term.Printer, tasks []task.Task, few bool, line func(task.Task)) {
	for i, t := range tasks {
		if i == session.AgentLimit && few {
			p.Line("… and %s more.", term.Plural(len(tasks)-i, "task"))
			return
		}
		line(t)
	}
}

// taskName is a task in a sentence: t1 "Fix bug".
func taskName(t task.Task) string { return t.ID + ` "` + term.Short(t.Title, 80) + `"` }
