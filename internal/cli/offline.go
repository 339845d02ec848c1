package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// offlineFlag is for commands that only look. Nothing is decided by what it
// shows: who asks whether a key is free gets the server's answer or none.
func (a *App) offlineFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.offline, "offline", false, "show what this machine last saw of a git store, without asking the server")
}

// seen is the store as this machine last saw it.
func (a *App) seen(ctx context.Context) (*store.Store, error) {
	url, _, err := a.cfg.Where()
	if err != nil {
		return nil, err
	}
	if !isGit(url) {
		return nil, usagef("--offline: %s is on this machine; only a store on a git remote is remembered", withoutPassword(url))
	}
	d, at, err := gitstore.Offline(ctx, onGit(url), nil)
	if err != nil {
		return nil, a.cfg.blame(driver.Unreachable(err))
	}
	a.asOf = at
	a.note("As of %s (%s ago): the server was not asked.", stamp(at), rough(a.Now().Sub(at)))
	a.st = a.newStore(url, d)
	return a.st, nil
}

func (a *App) when() *time.Time {
	if a.asOf.IsZero() {
		return nil
	}
	return &a.asOf
}

// looking are the commands with --offline.
var looking = []string{"list", "locks list", "show", "locks show", "tasks list", "tasks show"}

// lookOffline is the command that shows something although the server does not
// answer, or nothing.
func (a *App) lookOffline(err error) string {
	if a.cfg == nil || !a.cfg.far() || !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrUnknown) {
		return ""
	}
	url, _ := a.cfg.Store()
	if _, _, err := gitstore.Offline(context.Background(), onGit(url), nil); err != nil {
		return "" // this machine has never seen it
	}
	group, _, _ := strings.Cut(a.command, " ")
	switch {
	case a.offline:
		return ""
	case slices.Contains(looking, a.command):
		return a.commandLine(append(append(strings.Fields(a.command), a.args...), "--offline")...)
	case group == "tasks" || group == "next" || group == "sections":
		return a.commandLine("tasks", "list", "--offline")
	}
	return a.commandLine("list", "--offline")
}
