package setupcmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

type migrateOptions struct {
	from, to string
	force    bool
}

func NewMigrate(s *session.Session) *cobra.Command {
	o := &migrateOptions{}
	cmd := &cobra.Command{
		Use:   "migrate --to STORE",
		Short: "Move all records to another store",
		Long: `Move all records to another store, which must be empty.

The old store is closed first: every later command there exits with 3 and names the
new one. The records are copied with revisions above all that either store ever had,
so that no token is ever given out twice, and compared; then the new store opens. If
a migration is interrupted, repeat it; until then both stores are closed.

Held locks make it refuse. With --force they move too, for at least the rest of
their ttl, with new tokens: their holders can no longer renew in the old store, stop,
and take them again in the new one.

--from also reads the lists and locks of other systems, and does not change them:
steroids:PATH, cat:FOLDER, pi:FOLDER, aitasks:REMOTE or aitasks:REMOTE#BRANCH, and
percolate:FILE, rows of its schedules and locks as JSON or CSV. Locks that are held
there need --force. They keep their owner, host, process, worktree and age. A lock
that cannot be read is held by unknown:FILE. You can repeat the command.

Exit codes:
  6  locks are held
  9  something was damaged; the rest was moved`,
		Example: `  tasklock migrate --to git:origin --dry-run
  tasklock migrate --from file:/srv/locks --to sqlite:/srv/locks.db`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return o.run(ctx, s) }),
	}
	cmd.Flags().StringVar(&o.from, "from", "", "the store to leave (default: the configured one)")
	cmd.Flags().StringVar(&o.to, "to", "", "the store to move to")
	cmd.Flags().BoolVar(&o.force, "force", false, "move held locks too")
	return cmd
}

// migrateResult is what a migration did.
type migrateResult struct {
	From string `json:"from"`
	To   string `json:"to"`
	store.MoveResult
}

func (o *migrateOptions) run(ctx context.Context, s *session.Session) error {
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	if o.to == "" {
		return session.Usagef("--to: names the store to move to")
	}
	s.Leave(o.from)
	s.Leave(o.to)
	unnamed := o.from == ""
	if unnamed {
		if o.from, _, err = cfg.Where(); err != nil {
			return err
		}
	}
	if system, place, ok := foreign(o.from); ok {
		return o.adopt(ctx, s, system, place)
	}
	from, err := storeAt(ctx, s, "from", o.from, false)
	switch {
	case errors.Is(err, driver.ErrMissing) && unnamed: // nothing is to be moved
		return session.WithNext(err, s.UseStore(placeName(s, o.to)))
	case errors.Is(err, driver.ErrMissing):
		return session.WithNext(err, "tasklock migrate --help")
	case err != nil:
		return err
	}
	to, err := storeAt(ctx, s, "to", o.to, true)
	if err != nil {
		return err
	}
	ctx, copying := startCopying(ctx, s)
	r := store.MoveRequest{
		From: from, To: to, FromName: placeName(s, o.from), ToName: placeName(s, o.to),
		Carry: carry, Progress: copying.Update, DryRun: s.DryRun,
	}
	if !o.force {
		r.Leave = lease.Leave
	}
	out, err := store.Move(ctx, r)
	if err = copying.end(err); err != nil {
		return o.refused(err)
	}
	return s.Answer(migrateResult{r.FromName, r.ToName, out}, func(p *term.Printer) { o.print(s, p, r, out) })
}

// refused adds what helps here and nowhere else.
func (o *migrateOptions) refused(err error) error {
	var busy *lease.BusyError
	switch {
	case errors.As(err, &busy):
		return session.OtherStore(fmt.Errorf("%w; wait, or move the locks too with --force", err), o.from)
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrUnreachable):
		return fmt.Errorf("%w; to continue, repeat the command", err)
	case errors.Is(err, store.ErrNotEmpty):
		return session.OtherStore(fmt.Errorf("%s: %w; move to an empty one", config.WithoutPassword(o.to), err), o.to)
	}
	return err
}

func (o *migrateOptions) print(s *session.Session, p *term.Printer, r store.MoveRequest, out store.MoveResult) {
	switch {
	case out.Already:
		p.Line("%s has moved to %s already.", r.FromName, r.ToName)
	case s.DryRun:
		p.Line("Would move %s from %s to %s.", term.Plural(out.Records, "record"), r.FromName, r.ToName)
	default:
		p.Line("Moved %s from %s to %s.", term.Plural(out.Records, "record"), r.FromName, r.ToName)
	}
	if out.LeftOut > 0 {
		p.Line("%s of waiters and ended leases stayed behind.", term.Plural(out.LeftOut, "record"))
	}
	if !s.DryRun {
		p.Line("Next: %s", s.UseStore(r.ToName))
	}
}

// storeAt opens a store that a flag names. A target is made by its first
// commit; what is refused before leaves nothing behind.
func storeAt(ctx context.Context, s *session.Session, flag, url string, target bool) (*store.Store, error) {
	cfg, err := s.Config()
	if err != nil {
		return nil, err
	}
	if url, err = config.StoreValue(url); err != nil {
		return nil, session.Usagef("--%s: %v", flag, err)
	}
	o := session.Opens(cfg)
	d, err := s.OpenStore(ctx, url, o)
	if target && errors.Is(err, driver.ErrMissing) {
		d, err = s.Late(url, "named by --"+flag, o, !s.DryRun), nil
	}
	if err != nil {
		return nil, session.OtherStore(fmt.Errorf("--%s: %w", flag, err), url)
	}
	return s.NewStore(url, placed{d, url}), nil
}

// placed is a store whose errors know where it is.
type placed struct {
	driver.Store
	url string
}

func (p placed) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	snap, err := p.Store.Read(ctx, q)
	return snap, p.at(err)
}

func (p placed) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	rev, err := p.Store.Commit(ctx, b)
	return rev, p.at(err)
}

func (p placed) at(err error) error {
	if err == nil || errors.Is(err, driver.ErrConflict) {
		return err
	}
	return session.OtherStore(err, p.url)
}

// placeName is the name of a store that means the same in every folder, and
// tells no password.
func placeName(s *session.Session, url string) string {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok || len(scheme) == 1 {
		url = "sqlite:" + url
	}
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		dir = s.Dir
	}
	if remote, ok := strings.CutPrefix(url, "git:"); ok && !filepath.IsAbs(remote) {
		if folder, _, _ := strings.Cut(remote, "#"); repo.IsDir(filepath.Join(dir, folder)) {
			url = "git:" + filepath.Join(dir, remote)
		}
	}
	return config.WithoutPassword(config.Anchor(url, dir))
}
