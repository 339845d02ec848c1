// Package taskcmd has the commands about tasks, sections, ids and runners.
package taskcmd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func NewTasks(s *session.Session) *cobra.Command {
	return s.Group("tasks", "A list of work that many share",
		newTasksAddCmd(s), newTasksListCmd(s), newTasksShowCmd(s), newTasksUpdateCmd(s),
		newTasksClaimCmd(s), newTasksUnclaimCmd(s), newTasksCompleteCmd(s), newTasksFailCmd(s),
		newTasksBlockCmd(s), newTasksUnblockCmd(s), newTasksResetCmd(s), newTasksDependsCmd(s),
		newTasksDeleteCmd(s), newTasksArchiveCmd(s), newTasksStatsCmd(s), newTasksStalledCmd(s),
		newTasksHistoryCmd(s), newTasksImportCmd(s), newTasksExportCmd(s))
}

// Argument checks. A task is named by its id, the beginning of its id, or its
// title.

func oneTask(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return session.Usagef("takes one task, got %d; a title with spaces needs quotes", len(args))
	}
	return nil
}

func someTasks(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return session.Usagef("needs at least one task: its id, or its title in quotes")
	}
	return nil
}

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

// taskName is a task in a sentence: t1 "Fix bug".
func taskName(t task.Task) string { return t.ID + ` "` + term.Short(t.Title, 80) + `"` }

// tokenFlag is the fence of commands about a claim.
type tokenFlag struct {
	token int64
	lease string // from the environment: see leaseEnv
}

func (o *tokenFlag) flags(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&o.token, "token", 0, "only if the claim has this token (also: TASKLOCK_TOKEN)")
}

// fill checks the flag, and under run takes it from the environment when that
// speaks about the one task which is meant.
func (o *tokenFlag) fill(ctx context.Context, s *session.Session, st *store.Store, cmd *cobra.Command, refs []string) error {
	if cmd.Flags().Changed("token") {
		if o.token <= 0 {
			return session.Usagef("--token: must be a positive number")
		}
		if len(refs) != 1 {
			return session.Usagef("--token goes with exactly one task")
		}
		return nil
	}
	env := s.LeaseEnv()
	if len(refs) != 1 || len(env.Keys) != 1 || env.Token == "" {
		return nil
	}
	if refs[0] != env.Keys[0] {
		if i, err := task.Show(ctx, st, refs[0]); err != nil || i.ID != env.Keys[0] {
			return nil // the verb itself will say what is wrong
		}
	}
	var err error
	o.token, err = env.Number()
	o.lease = env.Lease(env.Keys)
	return err
}

// priorityFlag is a word or a number.
type priorityFlag struct {
	value int
	given bool
}

var priorities = map[string]int{"high": task.High, "medium": task.Medium, "low": task.Low}

func (f *priorityFlag) Set(s string) error {
	n, ok := priorities[strings.ToLower(s)]
	if !ok {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 || n > 999 {
			return errors.New("must be high, medium, low, or a number from 1 (first) to 999")
		}
	}
	f.value, f.given = n, true
	return nil
}

func (f *priorityFlag) Type() string { return "priority" }

func (f *priorityFlag) String() string {
	if !f.given {
		return ""
	}
	return priorityName(f.value)
}

func priorityName(n int) string {
	for name, value := range priorities {
		if value == n {
			return name
		}
	}
	return strconv.Itoa(n)
}

// labelsFlag collects labels; one flag may hold several between commas.
type labelsFlag struct {
	list  []string
	given bool
}

func (f *labelsFlag) Set(s string) error {
	f.given = true
	for l := range strings.SplitSeq(s, ",") {
		if l = strings.TrimSpace(l); l != "" {
			f.list = append(f.list, l)
		}
	}
	return nil
}

func (f *labelsFlag) Type() string { return "label" }

func (f *labelsFlag) String() string { return strings.Join(f.list, ",") }
