package cli

import (
	"context"
	"errors"
)

// compactResult is what cleanup --compact did.
type compactResult struct {
	Commits   int64 `json:"commits"`   // that the branch had; 0: no such thing here
	Compacted bool  `json:"compacted"` // with --dry-run: it would be
}

// compact drops the history that some stores keep beside the records.
func compact(ctx context.Context, a *App) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	url, _, err := cfg.Where()
	if err != nil {
		return err
	}
	var r compactResult
	err = errors.ErrUnsupported
	if a.Special.Compact != nil {
		r.Commits, err = a.Special.Compact(ctx, url, cfg.opens(), a.DryRun)
	}
	kept := errors.Is(err, errors.ErrUnsupported)
	if err != nil && !kept {
		return cfg.blame(err)
	}
	r.Compacted = r.Commits > 1
	return a.answer(r, func(p *printer) {
		switch {
		case kept:
			p.line("Nothing to compact: only a store on a git remote keeps a history of commits.")
		case !r.Compacted:
			p.line("Nothing to compact: the branch has one commit.")
		default:
			p.line("%s %d commits into one.", a.did("Compacted", "Would compact"), r.Commits)
		}
	})
}
