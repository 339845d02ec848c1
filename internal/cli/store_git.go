package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// isGit reports a store on a git remote.
func isGit(url string) bool { return driver.Scheme(url) == "git" }

// onGit is the remote and branch of such a store.
func onGit(url string) string { return strings.TrimPrefix(url, "git:") }

// changeGit does what only a store on a git remote can do.
func (c *Config) changeGit(ctx context.Context, url string, change func(*gitstore.Store) error) error {
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
