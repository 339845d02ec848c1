package setupcmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
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

func newConfigSetCmd(s *session.Session) *cobra.Command {
	o := &setOptions{}
	cmd := &cobra.Command{
		Use: "set KEY VALUE", Short: "Change a value in the project's file or the user's",
		Long: `Change a value in a configuration file.

The store of a repository goes into ` + repo.SharedName + ` at its root, for all clones:
commit it. With --local it goes into .tasklock/config.yaml, which only this clone
sees. All other values go there too.`,
		Example: "  tasklock config set store git:origin\n  tasklock config set locking.taskTimeout 45m\n  tasklock config set --user locking.waitTimeout 10m",
		Args:    settingArgs(2), ValidArgsFunction: completeSetting,
		RunE: s.Run(func(ctx context.Context, args []string) error { return configSet(ctx, s, args[0], args[1], o) }),
	}
	cmd.Flags().BoolVar(&o.user, "user", false, "in the user's file, for all projects")
	cmd.Flags().BoolVar(&o.local, "local", false, "for this clone only, even the store")
	cmd.MarkFlagsMutuallyExclusive("user", "local")
	return cmd
}

func configSet(ctx context.Context, s *session.Session, key, value string, o *setOptions) error {
	setting, _ := config.Find(key)
	text, err := setting.Norm(value)
	if err != nil {
		return session.Usagef("%s: %v", key, err)
	}
	p, err := s.FindPlace()
	if err != nil {
		return err
	}
	path, shared, err := fileFor(s, p, key, text, o)
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
		text = config.Reanchor(text, s.Dir, base)
	}
	left := []string(nil)
	if key == "store" && !o.user {
		left = leaves(ctx, s, text)
	}
	file := config.File{Path: path, Gate: path + ".lock", Mode: 0o600}
	if shared { // nothing but the file itself among those that are tracked
		file.Gate, file.Mode = filepath.Join(p.Tree.Git, repo.SharedName+".lock"), 0o644
	}
	changed, err := config.Edit(ctx, file, setting, text, s.DryRun)
	if err != nil {
		return err
	}
	s.Forget()
	if shared {
		settle(ctx, s, p, path, text)
	}
	data := map[string]any{"key": key, "value": text, "file": path, "changed": changed, "commit": shared, "leaves": append([]string{}, left...)}
	return s.Answer(data, func(p *term.Printer) {
		switch {
		case !changed:
			p.Line("%s is %s already in %s.", key, text, path)
		case s.DryRun:
			p.Line("Would set %s to %s in %s.", key, text, path)
		default:
			p.Line("Set %s to %s in %s.", key, text, path)
		}
		if shared && !s.DryRun {
			p.Line("Commit it, so that every clone uses this store: git add %s && git commit", repo.SharedName)
		}
	})
}

// fileFor is the file that a setting goes into, prepared for writing.
func fileFor(s *session.Session, p place.Place, key, text string, o *setOptions) (path string, shared bool, err error) {
	switch file := config.SharedFile(p); {
	case o.user:
		path, err = config.Editable(config.UserFile(s.Env), true, s.DryRun, s.Env)
	case key == "store" && !o.local && file != "":
		if p.Tree.Top != p.Tree.Git {
			file = filepath.Join(p.Tree.Top, repo.SharedName) // of the branch that is checked out here
		}
		if config.HasPassword(text) {
			return "", false, session.Usagef("store: holds a password, and %s is for everybody who has the repository; name the store without it, or keep it in this clone: config set --local", repo.SharedName)
		}
		if _, err := config.ReadShared(file); err != nil {
			return "", false, err
		}
		return file, true, config.NotLinked(file)
	case p.Config() == "":
		err = &noProjectError{next: s.CommandLine("config", "set", "--user", key, text)}
	default:
		path, err = config.Editable(p.Config(), false, s.DryRun, s.Env)
	}
	return path, false, err
}

// settle does the rest once the repository names a store: the user who sets it trusts
// it, and a file of this clone may name another.
func settle(ctx context.Context, s *session.Session, p place.Place, file, text string) {
	if !s.DryRun {
		if _, err := config.AddTrust(ctx, s.Env, config.NewSharedStore(p, file, text), false); err != nil {
			s.Warn("it is not trusted yet (%v); repeat: %s", err, s.CommandLine("config", "trust"))
		}
	}
	cfg, err := s.Config()
	if err != nil {
		return // the command that needs it will say so
	}
	if from, other := cfg.Origin("store"); other != file && from != config.OriginDefault && !s.DryRun {
		s.Warn("%s names another store, %s, which takes precedence here; remove it there", from, config.WithoutPassword(cfg.Text("store")))
	}
}

// leaves warns about the locks that stay in the former store: the new one does not see
// them.
func leaves(ctx context.Context, s *session.Session, to string) (keys []string) {
	cfg, err := s.Config()
	if err != nil {
		return nil
	}
	from, _, err := cfg.Where()
	if err != nil || s.Everywhere(ctx, from) == s.Everywhere(ctx, to) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	d, err := s.OpenStore(ctx, from, &driver.OpenOptions{AllowUnsafeFS: cfg.AllowUnsafeFS(), Timeout: cfg.StoreTimeout()})
	if errors.Is(err, driver.ErrMissing) {
		return nil
	}
	var moved *store.MovedError
	var out lease.ListResult
	if err == nil {
		out, err = lease.List(ctx, s.NewStore(from, d), lease.ListRequest{})
		_ = d.Close()
	}
	switch {
	case errors.As(err, &moved):
		return nil
	case err != nil:
		s.Warn("the store in use until now, %s, cannot be read (%v): the new store does not see its locks", config.WithoutPassword(from), err)
		return nil
	}
	var names []string
	for _, l := range out.Locks {
		if l.State == lease.Held {
			keys = append(keys, l.Key)
			names = append(names, fmt.Sprintf("%s (%s)", term.Short(l.Key, 60), term.Short(l.Owner, 60)))
		}
	}
	if len(keys) > 0 {
		s.Warn("locks in force stay in %s, and the new store does not see them: %s; let them end first, or move everything: tasklock migrate --from %s --to %s",
			config.WithoutPassword(from), view.Some(names[:min(5, len(names))], len(names)-min(5, len(names)), false), term.ShellQuote(config.WithoutPassword(from)), term.ShellQuote(config.WithoutPassword(to)))
	}
	return keys
}
