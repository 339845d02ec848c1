// Package setupcmd has the commands that make, move, examine and configure
// stores. Each New function makes the command of its name.
package setupcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

func NewInit(s *session.Session) *cobra.Command {
	raise, upgrade, force, local := false, false, false, false
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the store and say where it is",
		Long: `Make the store. Otherwise the first lock makes it. An existing store does not
change.

Without --store it is a database in .tasklock at the root of the main worktree, so
that all worktrees share it. A submodule has its own; a bare repository keeps it in
the repository. Outside git, init turns the current folder into a project: its
.tasklock serves the folder and everything below it. Outside repositories and
projects there is one store for each user, in XDG_STATE_HOME or ~/.local/state;
whoami shows which store it is. Git ignores the folder.

If a remote of the repository has a store on the branch tasklock, and this clone has
none, no command makes one: use the branch with tasklock config set store git:REMOTE,
or insist on a store of this clone with --local.

--raise is for a store that other tools have copied, or put back to an older state.
It raises the revision by more than 2^32, by the clock and by chance, so that no lost
token, and no token of another copy, is ever given out. Held locks stay held, with
new tokens. First stop commands that may still run under an older lock: the store
refuses them from then on, but they may not notice.

--upgrade converts the records of a store that an older tasklock made. Older versions
exit with 3 there afterwards. On this machine the first command that writes does it;
a store that machines share (git, PostgreSQL, etcd, https) needs this command. Held locks
make it refuse. With --force they stay locked for the rest of their ttl; holders with
an older version cannot renew them, and stop. If it is interrupted, repeat it.`,
		Example: "  tasklock init\n  tasklock init --store git:origin",
		Args:    session.NoArgs,
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
			return initStore(ctx, s, local)
		}),
	}
	cmd.Flags().BoolVar(&local, "local", false, "make a store for this clone alone, even if a remote has one")
	cmd.Flags().BoolVar(&raise, "raise", false, "raise the revision, after a restore by other tools")
	cmd.Flags().BoolVar(&upgrade, "upgrade", false, "convert a store that an older tasklock made")
	cmd.Flags().BoolVar(&force, "force", false, "with --upgrade: even if locks are held")
	return cmd
}

// initResult is what init did.
type initResult struct {
	Store   string `json:"store"`
	Created bool   `json:"created"` // with --dry-run: it would be
}

func initStore(ctx context.Context, s *session.Session, local bool) error {
	cfg, err := s.Found()
	if err != nil {
		return err
	}
	url, wasNamed, err := cfg.Where()
	if err != nil {
		return err
	}
	if local && wasNamed && url != cfg.Place.URL() { // which may be a branch that others share
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
		r.Created, err = true, cfg.Unusable()
		if err == nil && !local {
			err = cfg.Elsewhere()
		}
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
			p.Line("The store already exists: %s", r.Store)
		case s.DryRun:
			p.Line("Would make the store %s", r.Store)
		default:
			p.Line("Made the store %s", r.Store)
			p.Line("Next: %s", s.CommandLine("acquire", "TASK"))
		}
	})
}

// raiseResult is what init --raise did.
type raiseResult struct {
	Store    string `json:"store"`
	Revision int64  `json:"revision"` // 0 with --dry-run
}

// raiseRevision raises the revision. A store that remembers its last revision does it
// itself: it refuses everything else.
func raiseRevision(ctx context.Context, s *session.Session) error {
	cfg, url, err := s.Where()
	if err != nil {
		return err
	}
	r := raiseResult{Store: config.WithoutPassword(url)}
	switch {
	case !config.IsGit(url):
		r.Revision, err = raiseHere(ctx, s, cfg, url)
	case !s.DryRun:
		err = session.ChangeGit(ctx, cfg, url, func(store *gitstore.Store) (err error) {
			r.Revision, err = store.Raise(ctx)
			return err
		})
	}
	if err == nil && !s.DryRun {
		err = retoken(ctx, s, cfg, url, r.Revision)
	}
	if err != nil {
		return cfg.Blame(err)
	}
	return s.Answer(r, func(p *term.Printer) {
		if s.DryRun {
			p.Line("Would raise the revision of %s by more than 2^32.", r.Store)
			return
		}
		p.Line("The revision of %s is %d now; tokens from before are refused.", r.Store, r.Revision)
		p.Line("Commands that still run under an older lock do not know: stop them before others take their keys.")
	})
}

// retoken refuses the tokens of locks that are still held from before.
func retoken(ctx context.Context, s *session.Session, cfg *config.Config, url string, before int64) error {
	d, err := s.OpenStore(ctx, url, session.Opens(cfg))
	if err != nil {
		return err
	}
	return lease.Retoken(ctx, s.NewStore(url, d), before)
}

func raiseHere(ctx context.Context, s *session.Session, cfg *config.Config, url string) (int64, error) {
	o := session.Opens(cfg)
	o.Raise = true
	d, err := s.OpenStore(ctx, url, o)
	if err != nil || s.DryRun {
		return 0, err
	}
	return s.NewStore(url, d).Raise(ctx)
}

// upgradeResult is what init --upgrade did.
type upgradeResult struct {
	Store   string       `json:"store"`
	Holders []lease.Info `json:"holders"` // of locks, when it began
	store.UpgradeResult
}

// upgradeStore converts the store to the format of this tasklock. Whoever holds a lock
// by an older one cannot renew it afterwards.
func upgradeStore(ctx context.Context, s *session.Session, force bool) error {
	cfg, url, err := s.Where()
	if err != nil {
		return err
	}
	o := session.Opens(cfg)
	o.Upgrade = true
	d, err := s.OpenStore(ctx, url, o)
	if err != nil {
		return cfg.Blame(err)
	}
	r := upgradeResult{Store: config.WithoutPassword(url), Holders: []lease.Info{}}
	leave := func(tx *store.Tx) error {
		err := lease.Leave(tx)
		var busy *lease.BusyError
		if r.Holders = r.Holders[:0]; force && errors.As(err, &busy) {
			r.Holders, err = busy.Holders, nil
		}
		return err
	}
	r.UpgradeResult, err = s.NewStore(url, d).Upgrade(ctx, store.UpgradeRequest{Leave: leave, DryRun: s.DryRun})
	var busy *lease.BusyError
	if errors.As(err, &busy) {
		return &deniedBusy{
			busy: busy,
			text: fmt.Sprintf("%v; wait until they are done, or use --force: then holders with an older tasklock cannot renew, and each lock is free when its ttl ends", busy),
			next: s.CommandLine("init", "--upgrade", "--force", "--dry-run"),
		}
	}
	if err != nil {
		return err
	}
	return s.Answer(r, func(p *term.Printer) { printUpgrade(s, p, r) })
}

func printUpgrade(s *session.Session, p *term.Printer, r upgradeResult) {
	if r.Already {
		p.Line("The store %s has format %d already.", r.Store, r.To)
		return
	}
	if r.From < r.To {
		p.Line("%s the store %s from format %d to %d (%s).", p.Did("Upgraded", "Would upgrade"), r.Store, r.From, r.To, term.Plural(r.Records, "record"))
	}
	if r.Tables {
		p.Line("%s the tables of the store %s.", p.Did("Upgraded", "Would upgrade"), r.Store)
	}
	for _, h := range r.Holders {
		p.Line("%s is held by %s: an older tasklock cannot renew it; it is free when its ttl ends.", h.Key, h.Owner)
	}
	if !s.DryRun {
		p.Line("Older versions of tasklock get exit code 3 here from now on: upgrade them on all machines.")
	}
}
