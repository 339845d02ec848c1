package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/internal/cli/config"
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
