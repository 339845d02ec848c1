package taskcmd

import (
	"context"
	"errors"
	"sync"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// titles are those of the tasks that a command is about, by id. They are read
// once, when somebody turns out to be in the way.
type titles func() map[string]string

func titlesOf(ctx context.Context, st *store.Store, refs []string) titles {
	return sync.OnceValue(func() map[string]string {
		found := map[string]string{}
		for _, ref := range refs {
			if i, err := task.Show(ctx, st, ref); err == nil {
				found[i.ID] = i.Title
			}
		}
		return found
	})
}

// lockedText names the blocking owner, with the title of the task.
func (t titles) lockedText(h *lease.HeldError) string {
	if title := t()[h.Key]; title != "" {
		return view.LockedAs(`Task "`+term.Short(title, 80)+`"`, h)
	}
	return view.LockedText(h)
}

// explain adds the title of the task to a refusal.
func (t titles) explain(err error) error {
	var held *lease.HeldError
	if errors.As(err, &held) {
		return &session.Attempt{Err: err, Message: t.lockedText(held)}
	}
	return err
}
