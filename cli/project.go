package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/repo"
)

// projectFolder is the store's folder for the current one. Where it cannot be
// found and a store was named, there is none, and no project file either.
func (a *App) projectFolder() (string, error) {
	folder, err := repo.StoreFolder(a.Dir)
	var bad *repo.Error
	switch {
	case err == nil:
		return folder, nil
	case a.StoreURL != "" || a.Env("TASKLOCK_STORE") != "":
		return "", nil
	case errors.As(err, &bad):
		return "", &ConfigError{File: bad.File, Line: bad.Line, Msg: bad.Msg}
	}
	return "", &ConfigError{File: a.Dir, Msg: err.Error()}
}

// paths makes the keys of path locks the same in every worktree: "path:./x",
// "path:../x" and absolute paths become relative to the repository.
func (a *App) paths(keys []string) ([]string, error) {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = key
		kind, name := lock.KindOf(key)
		if kind != lock.Path || name == "" {
			continue
		}
		tree, err := repo.TreeOf(a.Dir)
		if err != nil {
			return nil, err
		}
		if name, err = tree.Pattern(a.Dir, name); err != nil {
			return nil, err
		}
		out[i] = string(lock.Path) + ":" + name
	}
	return out, nil
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
