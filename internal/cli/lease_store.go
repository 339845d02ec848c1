package cli

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store"
)

// A command that runs under a lease may work in another folder, which has
// another store; there the key of its lease is free, or somebody else's. So run,
// the runner and the scheduler tell it which store they mean, and commands about
// that lease ask there. All other commands ask the store of their folder.

const leaseStoreEnv = "TASKLOCK_LEASE_STORE"

// aboutKeys is which commands have keys for arguments. Hooks and guards are about
// files.
var aboutKeys = []string{
	"acquire", "release", "heartbeat", "check", "wait", "run", "break", "update", "show",
	"tasks claim", "tasks unclaim", "tasks complete", "tasks fail", "tasks block", "tasks unblock", "tasks update", "tasks show",
}

// environ is the environment of a command under a lease in our store.
func (a *App) environ(ctx context.Context) []string {
	own, _ := a.cfg.Store()
	return append(slices.Clip(a.Environ), leaseStoreEnv+"="+a.everywhere(ctx, own))
}

// leaseStore is the store that this command must ask because it is about the
// lease that it runs under, empty if it is not.
func (a *App) leaseStore() string {
	there := a.Env(leaseStoreEnv)
	if there == "" || a.StoreURL != "" || !slices.Contains(aboutKeys, a.command) {
		return ""
	}
	env := a.leaseEnv()
	ours := func(k string) bool {
		kind, _ := lease.KindOf(k)
		return kind != lease.Path && env.has([]string{k}) // a path is a file of this folder's repository
	}
	byLease := len(a.keyArgs) == 0 && slices.Contains(env.leases, a.flags["lease"])
	if byLease || slices.ContainsFunc(a.keyArgs, ours) {
		return there
	}
	return ""
}

// useLease lets the configuration name the store of the lease, unless it names it
// already: its own name for it may hold a password.
func (a *App) useLease(ctx context.Context, c *Config, there string) error {
	own, _ := c.Store()
	if own != "" && a.everywhere(ctx, own) == there {
		return nil
	}
	if len(a.keyArgs) > 0 && !a.leaseEnv().has(a.keyArgs) {
		return usagef("some of these keys belong to the lease that this command runs under, which is in another store (%s); take them one by one, or name one store for all with --store", there)
	}
	return c.useLease(there)
}

// leaseStoreGone: the store of the lease is not there, which must not be taken
// for an empty one, nor be made.
type leaseStoreGone struct{ url string }

func (e *leaseStoreGone) Error() string {
	return fmt.Sprintf("the store of the lease that this command runs under is gone: %s (%s); nothing can be said about the lease", withoutPassword(e.url), leaseStoreEnv)
}

func (e *leaseStoreGone) Unwrap() error { return store.ErrUnreachable }

// everywhere is a store's name that means the same in every folder, without a
// password.
func (a *App) everywhere(ctx context.Context, name string) string {
	scheme, path, ok := strings.Cut(name, ":")
	if !ok || len(scheme) == 1 {
		scheme, path = "sqlite", name
	}
	switch scheme {
	case "sqlite", "file":
		return scheme + ":" + a.realPath(strings.TrimPrefix(path, "//"))
	case "git":
		remote, branch, hasBranch := strings.Cut(path, "#")
		if hasBranch {
			branch = "#" + branch
		}
		return "git:" + stripPassword(a.remote(ctx, remote)) + branch
	}
	return stripPassword(name)
}

func (a *App) realPath(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	if real, err := repo.Real(path); err == nil {
		return real
	}
	return path
}

// remote is a git remote in a form that needs no repository around it.
func (a *App) remote(ctx context.Context, remote string) string {
	if strings.Contains(remote, ":") && filepath.VolumeName(remote) == "" { // a URL, or host:path
		return remote
	}
	if !strings.ContainsAny(remote, `/\`) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if url, err := git.Run(ctx, a.Dir, "config", "--get", "remote."+remote+".url"); err == nil && url != "" {
			if top, err := git.Run(ctx, a.Dir, "rev-parse", "--show-toplevel"); err == nil && !strings.Contains(url, ":") && !filepath.IsAbs(url) {
				url = filepath.Join(top, url)
			}
			return url
		}
	}
	return a.realPath(remote)
}

// stripPassword leaves out of a URL what nobody else should see. Forges take a
// token for the user.
func stripPassword(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Opaque != "" || !hasPassword(s) {
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
