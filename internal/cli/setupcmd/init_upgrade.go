package setupcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

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
