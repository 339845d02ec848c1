package leasecmd

import (
	"context"
	"errors"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// reported tells a loss from success: a command under run that completes its
// task, or reports on it in another way, gives the lock back with that. The
// task remembers by which token.
func reported(ctx context.Context, st *store.Store, g lease.Grant, err error) bool {
	if !errors.Is(err, lease.ErrLost) {
		return false
	}
	found := false
	for _, k := range g.Keys {
		if kind, _ := lease.KindOf(k.Key); kind != lease.Task {
			continue
		}
		i, err := task.Show(ctx, st, k.Key)
		if err != nil || i.ID != k.Key || i.LastVerb == "" || i.LastToken != k.Token {
			return false
		}
		found = true
	}
	return found
}
