// Package setupcmd has the commands that make, move, examine and configure
// stores.
package setupcmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

func NewInit(s *session.Session) *cobra.Command {
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
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error {
			switch {
			case raise && upgrade:
				return session.Usagef("--raise and --upgrade exclude each other")
			case force && !upgrade:
				return session.Usagef("--force belongs to --upgrade")
			case raise:
				return raiseRevision(ctx, s)
			case upgrade:
				return upgradeStore(ctx, s, force)
			}
			s.Founds = true
			return initStore(ctx, s)
		}),
	}
	cmd.Flags().BoolVar(&s.Insists, "local", false, "make a store for this clone alone, although a remote has one")
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

func initStore(ctx context.Context, s *session.Session) error {
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	url, wasNamed, err := cfg.Where()
	if err != nil {
		return err
	}
	if s.Insists && wasNamed && url != cfg.Place.URL() { // which may be a branch that others share
		return session.WithNext(
			session.Usagef("--local makes this clone's own store, and another one is %s: %s; change that first", cfg.Why(), config.WithoutPassword(url)),
			s.CommandLine("config", "set", "--local", "store", cfg.Place.URL()),
		)
	}
	o := session.Opens(cfg)
	r := initResult{Store: config.WithoutPassword(url)}
	d, err := s.OpenStore(ctx, url, o)
	if err == nil { // opening may rely on what was seen before
		err = s.NewStore(url, d).View(ctx, driver.Query{}, func(*store.Tx) error { return nil })
	}
	err = cfg.Blame(err)
	if errors.Is(err, driver.ErrMissing) {
		r.Created, err = true, s.Unmade(cfg)
		if err == nil && !s.DryRun {
			o.Create = true
			_, err = s.OpenStore(ctx, url, o)
		}
	}
	if err == nil && !wasNamed && !s.DryRun {
		err = cfg.MakeFolder() // which may have been made by hand
	}
	if err != nil {
		return err
	}
	return s.Answer(r, func(p *term.Printer) {
		switch {
		case !r.Created:
			p.Line("The store is there already: %s", r.Store)
		case s.DryRun:
			p.Line("Would make the store %s", r.Store)
		default:
			p.Line("Made the store %s", r.Store)
			p.Line("Next: %s", s.CommandLine("acquire", "TASK"))
		}
	})
}
