package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// OfflineFlag is for commands that only look. It decides nothing: a question
// whether a key is free gets the server's answer or none.
func (s *Session) OfflineFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.offline, "offline", false, "show the last known state of a git store without asking the server")
}

// seen is the store as this machine last saw it.
func (s *Session) seen(ctx context.Context) (*store.Store, error) {
	url, _, err := s.cfg.Where()
	if err != nil {
		return nil, err
	}
	if !config.IsGit(url) {
		return nil, Usagef("--offline: %s is on this machine; only a store on a git remote is remembered", config.WithoutPassword(url))
	}
	d, at, err := gitstore.Offline(ctx, onGit(url), nil)
	if err != nil {
		return nil, s.cfg.Blame(driver.Unreachable(err))
	}
	s.asOf = at
	s.Note("As of %s (%s ago): the server was not asked.", term.Stamp(at), term.Rough(s.Now().Sub(at)))
	s.st = s.NewStore(url, d)
	return s.st, nil
}

func (s *Session) when() *time.Time {
	if s.asOf.IsZero() {
		return nil
	}
	return &s.asOf
}

// looking are the commands with --offline.
var looking = []string{"list", "locks list", "show", "locks show", "tasks list", "tasks show"}

// lookOffline is the command that still shows something when the server does not
// answer, or nothing.
func (s *Session) lookOffline(err error) string {
	if s.cfg == nil || !s.cfg.Far() || !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrUnknown) {
		return ""
	}
	url, _ := s.cfg.Store()
	if _, _, err := gitstore.Offline(context.Background(), onGit(url), nil); err != nil {
		return "" // this machine has never seen it
	}
	group, _, _ := strings.Cut(s.Command, " ")
	switch {
	case s.offline:
		return ""
	case slices.Contains(looking, s.Command):
		return s.CommandLine(append(append(strings.Fields(s.Command), s.args...), "--offline")...)
	case group == "tasks" || group == "next" || group == "sections":
		return s.CommandLine("tasks", "list", "--offline")
	}
	return s.CommandLine("list", "--offline")
}
