package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

type setOptions struct {
	user  bool // in the user's file
	local bool // in the file of this clone, not in the one that all share
}

func newConfigSetCmd(a *App) *cobra.Command {
	o := &setOptions{}
	cmd := &cobra.Command{
		Use: "set KEY VALUE", Short: "Change a value in the project's file, or the user's",
		Long: `Change a value in a file. The store of a repository goes into ` + repo.SharedName + ` at its
root, which is for all clones: commit it. With --local it goes into
.tasklock/config.yaml, which only this clone sees, as everything else does.`,
		Example: "  tasklock config set store git:origin\n  tasklock config set locking.taskTimeout 45m\n  tasklock config set --user locking.waitTimeout 10m",
		Args:    settingArgs(2), ValidArgsFunction: completeSetting,
		RunE: a.does(func(ctx context.Context, args []string) error { return a.configSet(ctx, args[0], args[1], o) }),
	}
	cmd.Flags().BoolVar(&o.user, "user", false, "in the file of the user, for all projects")
	cmd.Flags().BoolVar(&o.local, "local", false, "for this clone only, also the store")
	cmd.MarkFlagsMutuallyExclusive("user", "local")
	return cmd
}

func (a *App) configSet(ctx context.Context, key, value string, o *setOptions) error {
	s, _ := findSetting(key)
	text, err := s.norm(value)
	if err != nil {
		return usagef("%s: %v", key, err)
	}
	p, err := a.findPlace()
	if err != nil {
		return err
	}
	path, shared, err := a.fileFor(p, key, text, o)
	if err != nil {
		return err
	}
	if key == "store" {
		base := filepath.Dir(path)
		switch {
		case o.user:
			base = ""
		case shared:
			base = p.Tree.Top // which is the main worktree to all that read it
		}
		text = reanchor(text, a.Dir, base)
	}
	left := []string(nil)
	if key == "store" && !o.user {
		left = a.leaves(ctx, text)
	}
	file := editedConfig{path: path, gate: path + ".lock", mode: 0o600}
	if shared { // nothing but the file itself among those that are tracked
		file.gate, file.mode = filepath.Join(p.Tree.Git, repo.SharedName+".lock"), 0o644
	}
	changed, err := editConfig(ctx, file, s, text, a.DryRun)
	if err != nil {
		return err
	}
	a.cfg, a.cfgErr = nil, nil // it is another one now
	if shared {
		a.settle(ctx, p, path, text)
	}
	data := map[string]any{"key": key, "value": text, "file": path, "changed": changed, "commit": shared, "leaves": append([]string{}, left...)}
	return a.answer(data, func(p *printer) {
		switch {
		case !changed:
			p.line("%s is %s already in %s.", key, text, path)
		case a.DryRun:
			p.line("Would set %s to %s in %s.", key, text, path)
		default:
			p.line("Set %s to %s in %s.", key, text, path)
		}
		if shared && !a.DryRun {
			p.line("Commit it, so that every clone uses this store: git add %s && git commit", repo.SharedName)
		}
	})
}

// fileFor is the file that a setting goes into, prepared for writing.
func (a *App) fileFor(p place.Place, key, text string, o *setOptions) (path string, shared bool, err error) {
	switch file := sharedFile(p); {
	case o.user:
		path, err = editable(userConfigFile(a.Env), true, a.DryRun, a.Env)
	case key == "store" && !o.local && file != "":
		if p.Tree.Top != p.Tree.Git {
			file = filepath.Join(p.Tree.Top, repo.SharedName) // of the branch that is checked out here
		}
		if hasPassword(text) {
			return "", false, usagef("store: holds a password, and %s is for everybody who has the repository; name the store without it, or keep it in this clone: config set --local", repo.SharedName)
		}
		if _, err := readShared(file); err != nil {
			return "", false, err
		}
		return file, true, notLinked(file)
	case p.Config() == "":
		err = &noProjectError{next: a.commandLine("config", "set", "--user", key, text)}
	default:
		path, err = editable(p.Config(), false, a.DryRun, a.Env)
	}
	return path, false, err
}

// settle is what remains to be done once the repository names a store: whoever
// sets it trusts it, and a file of this clone may name another.
func (a *App) settle(ctx context.Context, p place.Place, file, text string) {
	if !a.DryRun {
		if _, err := addTrust(ctx, a.Env, newSharedStore(p, file, text), false); err != nil {
			a.warn("it is not trusted yet (%v); repeat: %s", err, a.commandLine("config", "trust"))
		}
	}
	cfg, err := a.Config()
	if err != nil {
		return // the command that needs it will say so
	}
	if from, other := cfg.origin("store"); other != file && from != originDefault && !a.DryRun {
		url, _ := cfg.Store()
		a.warn("%s names another store, %s, and it wins here; remove it there", from, withoutPassword(url))
	}
}

// leaves warns about the locks that stay behind in the store that was used so
// far: nobody sees them in the new one.
func (a *App) leaves(ctx context.Context, to string) (keys []string) {
	cfg, err := a.Config()
	if err != nil {
		return nil
	}
	from, _, err := cfg.Where()
	if err != nil || a.everywhere(ctx, from) == a.everywhere(ctx, to) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	d, err := a.openStore(ctx, from, &driver.OpenOptions{AllowUnsafeFS: cfg.AllowUnsafeFS(), Timeout: cfg.StoreTimeout()})
	if errors.Is(err, driver.ErrMissing) {
		return nil
	}
	var moved *store.MovedError
	var out lease.ListResult
	if err == nil {
		out, err = lease.List(ctx, a.newStore(from, d), lease.ListRequest{})
		_ = d.Close()
	}
	switch {
	case errors.As(err, &moved):
		return nil
	case err != nil:
		a.warn("the store that was used so far, %s, cannot be looked at (%v): locks in it are not seen in the new one", withoutPassword(from), err)
		return nil
	}
	var names []string
	for _, l := range out.Locks {
		if l.State == lease.Held {
			keys = append(keys, l.Key)
			names = append(names, fmt.Sprintf("%s (%s)", short(l.Key, 60), short(l.Owner, 60)))
		}
	}
	if len(keys) > 0 {
		a.warn("locks in force stay behind in %s, and nobody sees them in the new store: %s; let them end first, or move everything: tasklock migrate --from %s --to %s",
			withoutPassword(from), some(names[:min(5, len(names))], len(names)-min(5, len(names)), false), shellQuote(withoutPassword(from)), shellQuote(withoutPassword(to)))
	}
	return keys
}

// editable prepares the place of a file. The user's may be a link, as people
// who keep their settings in a repository have it; the project's may not.
func editable(path string, user, dryRun bool, env func(string) string) (string, error) {
	if path == "" && user {
		return "", &ConfigError{File: "HOME", Msg: "is not set, so the user has no configuration file"}
	}
	if user {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real, nil
		}
		if err := homeless(env); err != nil || dryRun {
			return path, err
		}
		return path, refused(os.MkdirAll(filepath.Dir(path), 0o700))
	}
	if err := notLinked(filepath.Dir(path), path); err != nil || dryRun {
		return path, err
	}
	return path, makeFolder(filepath.Dir(path))
}

func notLinked(paths ...string) error {
	for _, p := range paths {
		if fi, err := os.Lstat(p); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%w: %s is a symbolic link; nothing is written through it", driver.ErrUnsafe, p)
		}
	}
	return nil
}
