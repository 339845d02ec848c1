package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// conversions make the records of format 1 those of format 2, in this order.
func conversions() []store.Conversion { return []store.Conversion{task.IndexNames} }

// newStore is the store that a URL names, over its driver: the one place where
// a command says how records of an older format are treated.
func (a *App) newStore(url string, d driver.Store) *store.Store {
	return store.NewWith(d, store.Options{
		Conversions: conversions(),
		Local:       !isShared(url),
		Patience:    a.patience(),
		Converted: func() {
			a.note("Note: the store %s was converted to format %d; older versions of tasklock cannot use it any more.", withoutPassword(url), store.Format)
		},
	})
}

// patience is how long a transaction goes on trying. 0: the default.
func (a *App) patience() time.Duration {
	if a.cfg == nil {
		return 0
	}
	return a.cfg.StoreTimeout()
}

// isShared reports that other machines may use the store.
func isShared(url string) bool {
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "git", "postgres", "postgresql", "etcd", "etcds":
		return true
	}
	return false
}

// upgradeResult is what init --upgrade did.
type upgradeResult struct {
	Store   string       `json:"store"`
	Holders []lease.Info `json:"holders"` // of locks, when it began
	store.UpgradeResult
}

// upgrade converts the store to the format of this tasklock. Whoever holds a lock
// by an older one cannot renew it afterwards.
func (a *App) upgrade(ctx context.Context, force bool) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	url, _, err := cfg.Where()
	if err != nil {
		return err
	}
	o := cfg.opens()
	o.Upgrade = true
	d, err := a.openStore(ctx, url, o)
	if err != nil {
		return cfg.blame(err)
	}
	r := upgradeResult{Store: withoutPassword(url), Holders: []lease.Info{}}
	leave := func(tx *store.Tx) error {
		err := lease.Leave(tx)
		var busy *lease.BusyError
		if r.Holders = r.Holders[:0]; force && errors.As(err, &busy) {
			r.Holders, err = busy.Holders, nil
		}
		return err
	}
	r.UpgradeResult, err = a.newStore(url, d).Upgrade(ctx, store.UpgradeRequest{Leave: leave, DryRun: a.DryRun})
	var busy *lease.BusyError
	if errors.As(err, &busy) {
		return &deniedBusy{
			busy: busy,
			text: fmt.Sprintf("%v; wait until they are done, or use --force: then holders with an older tasklock cannot renew, and each lock is free when its ttl ends", busy),
			next: a.commandLine("init", "--upgrade", "--force", "--dry-run"),
		}
	}
	if err != nil {
		return err
	}
	return a.answer(r, func(p *printer) { a.printUpgrade(p, r) })
}

func (a *App) printUpgrade(p *printer, r upgradeResult) {
	if r.Already {
		p.line("The store %s has format %d already.", r.Store, r.To)
		return
	}
	if r.From < r.To {
		p.line("%s the store %s from format %d to %d (%s).", a.did("Upgraded", "Would upgrade"), r.Store, r.From, r.To, plural(r.Records, "record"))
	}
	if r.Tables {
		p.line("%s the tables of the store %s.", a.did("Upgraded", "Would upgrade"), r.Store)
	}
	for _, h := range r.Holders {
		p.line("%s is held by %s: an older tasklock cannot renew it; it is free when its ttl ends.", h.Key, h.Owner)
	}
	if !a.DryRun {
		p.line("Older versions of tasklock get exit code 3 here from now on: upgrade them on all machines.")
	}
}
