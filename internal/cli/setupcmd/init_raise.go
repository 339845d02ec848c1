package setupcmd

import (
	"context"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/gitstore"
)

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
