package session

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store"
)

// aboutKeys are the commands with keys as arguments. Hooks and guards are about
// files.
var aboutKeys = []string{
	"acquire", "release", "heartbeat", "check", "wait", "run", "land", "break", "update", "show",
	"tasks claim", "tasks unclaim", "tasks complete", "tasks fail", "tasks block", "tasks unblock", "tasks update", "tasks show",
}

// LeaseEnviron is the environment of a command under a lease in our store.
func (s *Session) LeaseEnviron(ctx context.Context) []string {
	return append(slices.Clip(s.Environ), config.LeaseEnv+"="+s.Everywhere(ctx, s.URL()))
}

// leaseStore is the store of the lease that this command runs under, if the
// command is about that lease; otherwise empty.
func (s *Session) leaseStore() string {
	there := s.Env(config.LeaseEnv)
	if there == "" || s.StoreURL != "" || !slices.Contains(aboutKeys, s.line.name) {
		return ""
	}
	env := s.LeaseEnv()
	ours := func(k string) bool {
		kind, _ := lease.KindOf(k)
		return kind != lease.Path && env.has([]string{k}) // a path is a file of this folder's repository
	}
	keys := s.line.keys()
	byLease := len(keys) == 0 && slices.Contains(env.leases, s.line.given()["lease"])
	if byLease || slices.ContainsFunc(keys, ours) {
		return there
	}
	return ""
}

// About is this command for a question about a key: if the lease that it runs under
// has the key, it asks the store of that lease.
func (s *Session) About(ctx context.Context, key string) (*Session, error) {
	there := s.Env(config.LeaseEnv)
	if there == "" || s.StoreURL != "" || !s.LeaseEnv().has([]string{key}) {
		return s, nil
	}
	asks := s.At(s.Dir)
	cfg, err := asks.Config()
	if err != nil {
		return nil, err
	}
	if own, _ := cfg.Store(); own == "" || s.Everywhere(ctx, own) != there {
		err = cfg.UseLease(there)
	}
	return asks, err
}

// useLease makes the configuration name the store of the lease, unless it already
// does: its own name for it may have a password.
func (s *Session) useLease(ctx context.Context, c *config.Config, there string) error {
	own, _ := c.Store()
	if own != "" && s.Everywhere(ctx, own) == there {
		return nil
	}
	if keys := s.line.keys(); len(keys) > 0 && !s.LeaseEnv().has(keys) {
		return Usagef("some of these keys belong to the lease that this command runs under, which is in another store (%s); take them one by one, or name one store for all with --store", there)
	}
	return c.UseLease(there)
}

// leaseStoreGone: the store of the lease is missing. It must not count as empty,
// nor be made.
type leaseStoreGone struct{ url string }

func (e *leaseStoreGone) Error() string {
	return fmt.Sprintf("the store of the lease that this command runs under is gone: %s (%s); the state of the lease is unknown", config.WithoutPassword(e.url), config.LeaseEnv)
}

func (e *leaseStoreGone) Unwrap() error { return store.ErrUnreachable }

// Everywhere is a store's name that means the same in every folder, without a
// password.
func (s *Session) Everywhere(ctx context.Context, name string) string {
	scheme, path, ok := strings.Cut(name, ":")
	if !ok || len(scheme) == 1 {
		scheme, path = "sqlite", name
	}
	switch scheme {
	case "sqlite", "file":
		return scheme + ":" + s.realPath(strings.TrimPrefix(path, "//"))
	case "git":
		remote, branch, hasBranch := strings.Cut(path, "#")
		if hasBranch {
			branch = "#" + branch
		}
		return "git:" + stripPassword(s.remote(ctx, remote)) + branch
	}
	return stripPassword(name)
}

func (s *Session) realPath(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	if real, err := repo.Real(path); err == nil {
		return real
	}
	return path
}

// remote is a git remote in a form that needs no repository around it.
func (s *Session) remote(ctx context.Context, remote string) string {
	if strings.Contains(remote, ":") && filepath.VolumeName(remote) == "" { // a URL, or host:path
		return remote
	}
	if !strings.ContainsAny(remote, `/\`) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if url, err := git.Run(ctx, s.Dir, "config", "--get", "remote."+remote+".url"); err == nil && url != "" {
			if top, err := git.Run(ctx, s.Dir, "rev-parse", "--show-toplevel"); err == nil && !strings.Contains(url, ":") && !filepath.IsAbs(url) {
				url = filepath.Join(top, url)
			}
			return url
		}
	}
	return s.realPath(remote)
}

// stripPassword removes secrets from a URL. For forges the user may be a token.
func stripPassword(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Opaque != "" || !config.HasPassword(s) {
		return s
	}
	switch {
	case u.User != nil && strings.HasPrefix(u.Scheme, "http"):
		u.User = nil
	case u.User != nil:
		u.User = url.User(u.User.Username())
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(strings.ToLower(name), "password") {
			q.Del(name)
		}
	}
	if u.RawQuery != "" {
		u.RawQuery = q.Encode()
	}
	return u.String()
}
