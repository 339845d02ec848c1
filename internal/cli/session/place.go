package session

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/repo"
)

// FindPlace is the place of the current folder's store, if nobody names one. If it
// cannot be found and a store was named, there is none, and no project file.
func (s *Session) FindPlace() (place.Place, error) { return s.named(place.Find(s.Dir, s.Env)) }

// named is a place, or none if a store was named.
func (s *Session) named(p place.Place, err error) (place.Place, error) {
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

// Keys checks keys, and makes those of path locks the same in every worktree:
// "path:./x", "path:../x" and absolute paths become relative to the repository. In the
// user's store, which serves many folders, all become absolute paths.
func (s *Session) Keys(keys []string) (out []string, err error) {
	for _, key := range keys {
		if kind, name := lease.KindOf(key); kind == lease.Path && name != "" {
			if name, err = s.pathName(name); err != nil {
				return nil, err
			}
			key = lease.Path.Key(name)
		}
		if key, err = lease.CheckKey(key); err != nil {
			return nil, err
		}
		out = append(out, key)
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
		keys, err := s.Keys(args)
		if err != nil {
			return err
		}
		return run(ctx, keys)
	})
}

// Path is a file as the caller means it.
func (s *Session) Path(name string) string { return repo.Absolute(s.Dir, name) }

// ReadFile reads a file that the caller named, or stdin, and a little more
// than most, so that what checks the size can refuse it.
func (s *Session) ReadFile(name string, most int64) ([]byte, error) {
	in := s.Stdin
	if _, err := s.Config(); err != nil { // another program may have to go on, and read it
		return nil, err
	}
	if name != "-" {
		f, err := os.Open(s.Path(name))
		if err != nil {
			return nil, Usagef("%v", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, Usagef("%v", err)
	}
	return data, nil
}
