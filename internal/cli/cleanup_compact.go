package cli

import (
	"context"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
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
	if isGit(url) {
		err = cfg.changeGit(ctx, url, func(s *gitstore.Store) (err error) {
			if r.Commits, err = s.Commits(ctx); err != nil || a.DryRun {
				return driver.Unreachable(err)
			}
			return s.Compact(ctx)
		})
	}
	if err != nil {
		return cfg.blame(err)
	}
	r.Compacted = r.Commits > 1
	return a.answer(r, func(p *printer) {
		switch {
		case !isGit(url):
			p.line("Nothing to compact: only a store on a git remote keeps a history of commits.")
		case !r.Compacted:
			p.line("Nothing to compact: the branch has one commit.")
		default:
			p.line("%s %d commits into one.", a.did("Compacted", "Would compact"), r.Commits)
		}
	})
}
