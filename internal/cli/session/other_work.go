package session

import (
	"context"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// otherTime limits the search for other work: a refusal must not wait for it.
const otherTime = time.Second

// OtherWork is the command that claims another task, for a refused caller. It is
// empty if no task is ready now.
func (s *Session) OtherWork() string {
	if s.st == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), otherTime)
	defer cancel()
	if _, err := task.Next(ctx, s.st, task.NextRequest{Acquire: lease.AcquireRequest{Owner: s.Identity().Owner}}); err != nil {
		return ""
	}
	return s.CommandLine("next", "--claim")
}
