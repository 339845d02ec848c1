package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/repo"
)

// findPlace is where the store of the current folder is, if nobody names one.
// Where that cannot be found and a store was named, there is none, and no
// project file either.
func (a *App) findPlace() (place.Place, error) {
	p, err := place.Find(a.Dir, a.Env)
	if err == nil && a.founds && p.Kind == place.User {
		p, err = place.Here(a.Dir)
	}
	var bad *repo.Error
	switch {
	case err == nil:
		return p, nil
	case a.StoreURL != "" || a.Env("TASKLOCK_STORE") != "" || a.leaseStore() != "":
		return place.Place{}, nil
	case errors.As(err, &bad):
		return place.Place{}, &ConfigError{File: bad.File, Line: bad.Line, Msg: bad.Msg}
	}
	return place.Place{}, &ConfigError{File: a.Dir, Msg: err.Error() + "; name a store with --store"}
}

// unmade says why a store that is not there may not be made here, nor be taken
// for an empty one: there is no place for it, or others have theirs on a branch.
func (a *App) unmade(cfg *Config) error {
	if _, named := cfg.Store(); named {
		return nil
	}
	if err := cfg.place.Usable(cfg.AllowUnsafeFS()); err != nil && !a.lenient {
		return err
	}
	if remote := cfg.place.Shared(false); remote != "" && !a.insists {
		return &place.SharedError{Remote: remote}
	}
	return nil
}

// warnShared tells who uses a store of their own although a remote has one.
func (a *App) warnShared(cfg *Config) {
	if _, named := cfg.Store(); named || a.Quiet {
		return
	}
	if remote := cfg.place.Shared(true); remote != "" {
		url, _ := cfg.Store()
		a.warn("the remote %s has a branch %s, where others may keep their locks; this clone uses its own store. Use the branch: %s; or keep this one: %s",
			remote, place.Branch, useBranch(remote), "tasklock config set --local store "+shellQuote(url))
	}
}

// useBranch is the command after which the store on a remote is used.
func useBranch(remote string) string {
	return "tasklock config set store " + shellQuote("git:"+remote)
}

// paths makes the keys of path locks the same in every worktree: "path:./x",
// "path:../x" and absolute paths become relative to the repository. In the
// user's store, which serves many folders, all become whole paths.
func (a *App) paths(keys []string) ([]string, error) {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = key
		kind, name := lease.KindOf(key)
		if kind != lease.Path || name == "" {
			continue
		}
		name, err := a.pathName(name)
		if err != nil {
			return nil, err
		}
		out[i] = string(lease.Path) + ":" + name
	}
	return out, nil
}

func (a *App) pathName(name string) (string, error) {
	cfg, err := a.Config()
	if err != nil {
		return "", err
	}
	if cfg.users() {
		return repo.Whole(a.Dir, name)
	}
	tree, err := repo.TreeOf(a.Dir)
	if err != nil {
		return "", err
	}
	return tree.Pattern(a.Dir, name)
}

// forKeys is does for a command whose arguments are keys.
func (a *App) forKeys(run runFunc) func(*cobra.Command, []string) error {
	return a.does(func(ctx context.Context, args []string) error {
		keys, err := a.paths(args)
		if err != nil {
			return err
		}
		return run(ctx, keys)
	})
}
