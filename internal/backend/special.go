package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/cli"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// special is what only a store on a git remote can do.
var special = cli.Special{Compact: compact, Raise: raise, Offline: offline, Files: files}

// onBranch opens a git store for it.
func onBranch(ctx context.Context, url string, o cli.OpenOptions) (*gitstore.Store, error) {
	scheme, place, err := Split(url)
	switch {
	case err != nil:
		return nil, err
	case scheme != "git":
		return nil, errors.ErrUnsupported
	}
	remote, branch, _ := strings.Cut(place, "#")
	s, err := gitstore.Open(ctx, remote, &gitstore.Options{Branch: branch, Timeout: o.Timeout})
	return s, as(store.ErrUnreachable, err)
}

func compact(ctx context.Context, url string, o cli.OpenOptions, dry bool) (int64, error) {
	s, err := onBranch(ctx, url, o)
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close() }()
	n, err := s.Commits(ctx)
	if err != nil || dry {
		return n, as(store.ErrUnreachable, err)
	}
	return n, as(store.ErrUnknown, s.Compact(ctx))
}

func raise(ctx context.Context, url string, o cli.OpenOptions) (int64, error) {
	s, err := onBranch(ctx, url, o)
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close() }()
	rev, err := s.Raise(ctx)
	return rev, as(store.ErrUnknown, err)
}

func offline(ctx context.Context, url string) (driver.Store, time.Time, error) {
	_, place, err := Split(url)
	if err != nil {
		return nil, time.Time{}, err
	}
	remote, branch, _ := strings.Cut(place, "#")
	d, at, err := gitstore.Offline(ctx, remote, &gitstore.Options{Branch: branch})
	return d, at, as(store.ErrUnreachable, err)
}

func files(ctx context.Context, remote, branch, under string, o cli.OpenOptions) (map[string][]byte, error) {
	found, err := gitstore.Files(ctx, remote, branch, under, &gitstore.Options{Timeout: o.Timeout})
	return found, as(store.ErrUnreachable, err)
}

// as makes an error of a driver that is no answer one of package store.
func as(what, err error) error {
	if err == nil || driver.Refusal(err) {
		return err
	}
	return fmt.Errorf("%w: %w", what, err)
}
