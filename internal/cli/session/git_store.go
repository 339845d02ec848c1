package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// onGit is the remote and branch of a git store.
func onGit(url string) string { return strings.TrimPrefix(url, "git:") }

// ChangeGit does what only a git store can do.
func ChangeGit(ctx context.Context, c *config.Config, url string, change func(*gitstore.Store) error) error {
	s, err := gitstore.Open(ctx, onGit(url), &gitstore.Options{Timeout: c.StoreTimeout()})
	if err != nil {
		return driver.Unreachable(err)
	}
	defer func() { _ = s.Close() }()
	if err = change(s); err != nil && !driver.Refusal(err) && !errors.Is(err, store.ErrUnreachable) {
		err = fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return err
}

// OfflineFlag is for commands that only look. It decides nothing: a question
// whether a key is free gets the server's answer or none.
func OfflineFlag(cmd *cobra.Command) {
	cmd.Flags().Bool("offline", false, "show the last known state of a git store without asking the server")
}

// seen is the store as this machine last saw it.
func (s *Session) seen(ctx context.Context) (*store.Store, error) {
	cfg := s.settings.cfg
	url, _, err := cfg.Where()
	if err != nil {
		return nil, err
	}
	if !config.IsGit(url) {
		return nil, Usagef("--offline: %s is on this machine; only a store on a git remote is remembered", config.WithoutPassword(url))
	}
	d, at, err := gitstore.Offline(ctx, onGit(url), nil)
	if err != nil {
		return nil, cfg.Blame(driver.Unreachable(err))
	}
	s.Note("As of %s (%s ago): the server was not asked.", term.Stamp(at), term.Rough(s.Now().Sub(at)))
	s.opened = opened{store: s.NewStore(url, d), asOf: &at}
	return s.opened.store, nil
}

// offline reports whether --offline was given.
func (s *Session) offline() bool {
	f := s.line.flag("offline")
	return f != nil && f.Value.String() == "true"
}

// lookOffline is the command that still shows something when the server does not
// answer, or nothing.
func (s *Session) lookOffline(err error) string {
	if cfg := s.settings.cfg; cfg == nil || !cfg.Far() || !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrUnknown) {
		return ""
	}
	if _, _, err := gitstore.Offline(context.Background(), onGit(s.settings.url()), nil); err != nil {
		return "" // this machine has never seen it
	}
	group, _, _ := strings.Cut(s.line.name, " ")
	switch {
	case s.offline():
		return ""
	case s.line.flag("offline") != nil:
		return s.CommandLine(append(append(strings.Fields(s.line.name), s.line.args...), "--offline")...)
	case group == "tasks" || group == "next" || group == "sections":
		return s.CommandLine("tasks", "list", "--offline")
	}
	return s.CommandLine("list", "--offline")
}
