package lockcmd

import (
	"context"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// compactResult is what cleanup --compact did.
type compactResult struct {
	Commits   int64 `json:"commits"`   // that the branch had; 0: no such thing here
	Compacted bool  `json:"compacted"` // with --dry-run: it would be
}

// compact drops the history that some stores keep beside the records.
func compact(ctx context.Context, s *session.Session) error {
	cfg, url, err := s.Where()
	if err != nil {
		return err
	}
	var r compactResult
	if config.IsGit(url) {
		err = session.ChangeGit(ctx, cfg, url, func(store *gitstore.Store) (err error) {
			if r.Commits, err = store.Commits(ctx); err != nil || s.DryRun {
				return driver.Unreachable(err)
			}
			return store.Compact(ctx)
		})
	}
	if err != nil {
		return cfg.Blame(err)
	}
	r.Compacted = r.Commits > 1
	return s.Answer(r, func(p *term.Printer) {
		switch {
		case !config.IsGit(url):
			p.Line("Nothing to compact: only a store on a git remote keeps a history of commits.")
		case !r.Compacted:
			p.Line("Nothing to compact: the branch has one commit.")
		default:
			p.Line("%s %d commits into one.", p.Did("Compacted", "Would compact"), r.Commits)
		}
	})
}
