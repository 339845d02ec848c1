package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

func newInitCmd(app *App) *cobra.Command {
	raise, upgrade, force := false, false, false
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the store, if there is none, and say where it is",
		Long: "Make the store. Without this the first lock makes it; what is there already is left alone.\n\n" +
			"Without --store it is a database in .tasklock at the root of the main worktree, so that all worktrees\n" +
			"share it. A submodule has its own; a bare repository keeps it in the repository. Outside git init makes a\n" +
			"project of the current folder: a .tasklock that serves the folder and all below it. What is in no\n" +
			"repository and no project shares one store for each user, in XDG_STATE_HOME or ~/.local/state; whoami\n" +
			"shows which store it is. Git ignores the folder.\n\n" +
			"Where a remote of the repository has a store on the branch tasklock, and this clone has none, nothing makes\n" +
			"one: tasklock config set store git:REMOTE uses the branch, and --local insists on a store of this clone's own.\n\n" +
			"--raise is for a store that other tools have copied, or put back to an older state: it lifts the revision by\n" +
			"more than 2^32, by the clock and by chance, so that no token of the time that is lost, or of another copy, is\n" +
			"ever given out. Locks that are held stay so, with new tokens. Stop those who may still work under a lock of\n" +
			"before first: they are refused from then on, but a command that runs may not be told.\n\n" +
			"--upgrade is for a store that an older tasklock made: it converts the records, once. Older versions get exit\n" +
			"code 3 there afterwards. On this machine the first command that writes does it unasked; a store that machines\n" +
			"share (git, PostgreSQL, etcd) is only upgraded by this. Held locks refuse it. With --force they stay locked for\n" +
			"the rest of their ttl; holders that are older versions cannot renew them, and stop. If it is interrupted, repeat it.",
		Args: noArgs,
		RunE: app.does(func(ctx context.Context, _ []string) error {
			switch {
			case raise && upgrade:
				return usagef("--raise and --upgrade exclude each other")
			case force && !upgrade:
				return usagef("--force belongs to --upgrade")
			case raise:
				return app.raise(ctx)
			case upgrade:
				return app.upgrade(ctx, force)
			}
			app.founds = true
			return app.initStore(ctx)
		}),
	}
	cmd.Flags().BoolVar(&app.insists, "local", false, "make a store for this clone alone, although a remote has one")
	cmd.Flags().BoolVar(&raise, "raise", false, "lift the revision, after a restore by other tools")
	cmd.Flags().BoolVar(&upgrade, "upgrade", false, "convert a store that an older tasklock made")
	cmd.Flags().BoolVar(&force, "force", false, "with --upgrade: although locks are held")
	return cmd
}

// initResult is what init did.
type initResult struct {
	Store   string `json:"store"`
	Created bool   `json:"created"` // with --dry-run: it would be
}

func (a *App) initStore(ctx context.Context) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	url, wasNamed, err := cfg.Where()
	if err != nil {
		return err
	}
	if a.insists && wasNamed && url != cfg.place.URL() { // which may be a branch that others share
		return &hinted{
			usagef("--local makes this clone's own store, and another one is %s: %s; change that first", cfg.Why(), withoutPassword(url)),
			a.commandLine("config", "set", "--local", "store", cfg.place.URL()),
		}
	}
	o := cfg.opens()
	r := initResult{Store: withoutPassword(url)}
	d, err := a.openStore(ctx, url, o)
	if err == nil { // opening may rely on what was seen before
		err = a.newStore(url, d).View(ctx, driver.Query{}, func(*store.Tx) error { return nil })
	}
	err = cfg.blame(err)
	if errors.Is(err, driver.ErrMissing) {
		r.Created, err = true, a.unmade(cfg)
		if err == nil && !a.DryRun {
			o.Create = true
			_, err = a.openStore(ctx, url, o)
		}
	}
	if err == nil && !wasNamed && !a.DryRun {
		err = cfg.makeFolder() // which may have been made by hand
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

// raiseResult is what init --raise did.
type raiseResult struct {
	Store    string `json:"store"`
	Revision int64  `json:"revision"` // 0 with --dry-run
}

// raise lifts the revision. A store that remembers how far it was does so
// itself: it refuses everything else.
func (a *App) raise(ctx context.Context) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	url, _, err := cfg.Where()
	if err != nil {
		return err
	}
	r := raiseResult{Store: withoutPassword(url)}
	switch {
	case !isGit(url):
		r.Revision, err = a.raiseHere(ctx, url)
	case !a.DryRun:
		err = cfg.changeGit(ctx, url, func(s *gitstore.Store) (err error) {
			r.Revision, err = s.Raise(ctx)
			return err
		})
	}
	if err == nil && !a.DryRun {
		err = a.retoken(ctx, url, r.Revision)
	}
	if err != nil {
		return cfg.blame(err)
	}
	return a.answer(r, func(p *printer) {
		if a.DryRun {
			p.line("Would lift the revision of %s by more than 2^32.", r.Store)
			return
		}
		p.line("The revision of %s is %d now; tokens from before are refused.", r.Store, r.Revision)
		p.line("Whoever still works under a lock from before does not know: stop those commands before others take their keys.")
	})
}

// retoken refuses the tokens of locks that are still held from before.
func (a *App) retoken(ctx context.Context, url string, before int64) error {
	d, err := a.openStore(ctx, url, a.cfg.opens())
	if err != nil {
		return err
	}
	return lease.Retoken(ctx, a.newStore(url, d), before)
}

func (a *App) raiseHere(ctx context.Context, url string) (int64, error) {
	o := a.cfg.opens()
	o.Raise = true
	d, err := a.openStore(ctx, url, o)
	if err != nil || a.DryRun {
		return 0, err
	}
	return a.newStore(url, d).Raise(ctx)
}
