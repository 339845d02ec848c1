package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/store/driver"
)

func newInitCmd(app *App) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Make the store, if there is none, and say where it is",
		Long: "Make the store. Without this the first lock makes it; what is there already is left alone.\n\n" +
			"Without --store it is a database in .tasklock at the root of the main worktree, so that all worktrees\n" +
			"share it. A submodule has its own; a bare repository keeps it in the repository. Outside git it is in the\n" +
			"nearest parent that has a .tasklock, else in the current folder. Git ignores the folder.",
		Args: noArgs,
		RunE: app.does(app.initStore),
	}
}

// initResult is what init did.
type initResult struct {
	Store   string `json:"store"`
	Created bool   `json:"created"` // with --dry-run: it would be
}

func (a *App) initStore(ctx context.Context, _ []string) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	url, wasNamed := cfg.Store()
	o := OpenOptions{AllowUnsafeFS: cfg.AllowUnsafeFS(), Poll: cfg.PollInterval()}
	r := initResult{Store: withoutPassword(url)}
	_, err = a.Open(ctx, url, o)
	if errors.Is(err, driver.ErrMissing) {
		r.Created, err = true, nil
		if !a.DryRun {
			o.Create = true
			_, err = a.Open(ctx, url, o)
		}
	}
	if err == nil && !wasNamed && !a.DryRun {
		err = makeFolder(cfg.folder) // which may have been made by hand
	}
	if err != nil {
		return err
	}
	return a.answer(r, func(p *printer) {
		switch {
		case !r.Created:
			p.line("The store is there already: %s", r.Store)
		case a.DryRun:
			p.line("Would make the store %s", r.Store)
		default:
			p.line("Made the store %s", r.Store)
			p.line("Next: %s", a.commandLine("acquire", "TASK"))
		}
	})
}
