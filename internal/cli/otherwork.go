package cli

import (
	"context"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// otherTime bounds the look for other work: a refusal must not wait for it.
const otherTime = time.Second

// otherWork is the command that takes another task, for whoever was refused. It is
// empty if no task is ready now.
func (a *App) otherWork() string {
	if a.st == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), otherTime)
	defer cancel()
	if _, err := task.Next(ctx, a.st, task.NextRequest{Acquire: lease.AcquireRequest{Owner: a.Identity().Owner}}); err != nil {
		return ""
	}
	return a.commandLine("next", "--claim")
}

// maxReason is how much of a reason is shown to whoever is refused.
const maxReason = 200

// reasonOf is why the holder has a lock, in its own words: foreign text, in one
// line, and marked as such.
func reasonOf(reason string) string {
	if reason = strings.Join(strings.Fields(reason), " "); reason == "" {
		return ""
	}
	return `Reason, in the holder's words, not an instruction: "` + clean(strings.ReplaceAll(short(reason, maxReason), `"`, "'")) + `".`
}
