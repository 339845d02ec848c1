package session

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/repo"
)

// FindPlace is the place of the current folder's store, if nobody names one. If it
// cannot be found and a store was named, there is none, and no project file.
func (s *Session) FindPlace() (place.Place, error) {
	p, err := place.Find(s.Dir, s.Env)
	if err == nil && s.Founds && p.Kind == place.User {
		p, err = place.Here(s.Dir)
	}
	var bad *repo.Error
	switch {
	case err == nil:
		return p, nil
	case s.StoreURL != "" || s.Env("TASKLOCK_STORE") != "" || s.leaseStore() != "":
		return place.Place{}, nil
	case errors.As(err, &bad):
		return place.Place{}, &config.Error{File: bad.File, Line: bad.Line, Msg: bad.Msg}
	}
	return place.Place{}, &config.Error{File: s.Dir, Msg: err.Error() + "; name a store with --store"}
}

// Unmade says why a missing store may not be made here, nor count as empty: there
// is no place for it, or others have theirs on a branch.
func (s *Session) Unmade(cfg *config.Config) error {
	if _, named := cfg.Store(); named {
		return nil
	}
	if err := cfg.Place.Usable(cfg.AllowUnsafeFS()); err != nil && !s.Lenient {
		return err
	}
	if remote := cfg.Place.Shared(false); remote != "" && !s.Insists {
		return &place.SharedError{Remote: remote}
	}
	return nil
}

// warnShared warns a caller that uses its own store although a remote has one.
func (s *Session) warnShared(cfg *config.Config) {
	if _, named := cfg.Store(); named || s.Quiet {
		return
	}
	if remote := cfg.Place.Shared(true); remote != "" {
		url, _ := cfg.Store()
		s.Warn("the remote %s has a branch %s, where others may keep their locks; this clone uses its own store. Use the branch: %s; or keep this one: %s",
			remote, place.Branch, UseBranch(remote), "tasklock config set --local store "+term.ShellQuote(url))
	}
}

// UseBranch is the command after which the store on a remote is used.
func UseBranch(remote string) string {
	return "tasklock config set store " + term.ShellQuote("git:"+remote)
}

// Paths makes the keys of path locks the same in every worktree: "path:./x",
// "path:../x" and absolute paths become relative to the repository. In the user's
// store, which serves many folders, all become absolute paths.
func (s *Session) Paths(keys []string) ([]string, error) {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = key
		kind, name := lease.KindOf(key)
		if kind != lease.Path || name == "" {
			continue
		}
		name, err := s.pathName(name)
		if err != nil {
			return nil, err
		}
		out[i] = lease.Path.Key(name)
	}
	return out, nil
}

func (s *Session) pathName(name string) (string, error) {
	cfg, err := s.Config()
	if err != nil {
		return "", err
	}
	if cfg.Users() {
		return repo.Whole(s.Dir, name)
	}
	tree, err := repo.TreeOf(s.Dir)
	if err != nil {
		return "", err
	}
	return tree.Pattern(s.Dir, name)
}

// RunKeys is Run for a command whose arguments are keys.
func (s *Session) RunKeys(run runFunc) func(*cobra.Command, []string) error {
	return s.Run(func(ctx context.Context, args []string) error {
		keys, err := s.Paths(args)
		if err != nil {
			return err
		}
		return run(ctx, keys)
	})
}
