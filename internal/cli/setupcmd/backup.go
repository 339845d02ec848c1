package setupcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

func NewBackup(s *session.Session) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all records into a file",
		Long: `Write all records into a file, as they are at one moment. Others can work meanwhile.

The file is text, one record on a line, with a checksum at its end. Only you can
read it. It appears when it is complete. restore reads it. A store that has moved
can still be backed up.`,
		Example: "  tasklock backup locks.jsonl",
		Args:    oneFile,
		RunE:    s.Run(func(ctx context.Context, args []string) error { return backup(ctx, s, args[0], force) }),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	return cmd
}

func oneFile(cmd *cobra.Command, args []string) error {
	if slices.Equal(args, []string{"-"}) {
		return session.Usagef("needs a file name; cannot be piped")
	}
	return session.One("file")(cmd, args)
}

// backupResult is what backup wrote.
type backupResult struct {
	File     string    `json:"file"`
	From     string    `json:"from"`
	Records  int       `json:"records"`
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time"`
}

func backup(ctx context.Context, s *session.Session, file string, force bool) error {
	path := s.Path(file)
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return session.Usagef("%s is not a regular file, so --force does not replace it", file)
	}
	if repo.Exists(path) && !force {
		return &session.DeniedError{Text: fmt.Sprintf("%s exists; --force replaces it", file), Next: s.CommandLine("backup", file, "--force")}
	}
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	c, err := st.ReadAll(ctx, placeName(s, s.URL()))
	if err != nil {
		return err
	}
	if c.MovedTo != "" {
		s.Warn("the records have moved to %s; the backup has them as they were then.", c.MovedTo)
	}
	r := backupResult{file, c.From, len(c.Records), c.Rev, c.Now.UTC()}
	if !s.DryRun {
		if err := writeBackup(path, c); host.NoSpace(err) {
			return fmt.Errorf("%w: %w; make room, or name a file on another disk", driver.ErrFull, err)
		} else if err != nil {
			return err
		}
	}
	return s.Answer(r, func(p *term.Printer) {
		p.Line("%s %s at revision %d to %s.", p.Did("Wrote", "Would write"), term.Plural(r.Records, "record"), r.Revision, file)
	})
}

// writeBackup lets the file appear when all of it is on the disk, for its user alone.
func writeBackup(path string, c store.Copy) error {
	return host.ReplaceFile(path, 0o600, func(w io.Writer) error { return store.WriteBackup(w, c) })
}

func NewRestore(s *session.Session) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put the records of a backup into the store",
		Long: `Put the records of a backup into the store, which must be empty. --force replaces
everything in it, held locks too.

The revision rises by more than 2^32: no token from after the backup is given out
again, and the store refuses holders of old tokens. Two stores restored from one
backup give out different tokens. Leases of the backup whose ttl has passed stay out,
so their locks are free and their tasks pending. If a restore is interrupted, repeat
it; until then the store is closed.`,
		Example: "  tasklock restore locks.jsonl --dry-run",
		Args:    oneFile,
		RunE:    s.Run(func(ctx context.Context, args []string) error { return restore(ctx, s, args[0], force) }),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace everything in the store")
	return cmd
}

// restoreResult is what restore did.
type restoreResult struct {
	File  string    `json:"file"`
	Store string    `json:"store"`
	Time  time.Time `json:"time"` // of the backup
	store.MoveResult
}

func restore(ctx context.Context, s *session.Session, file string, force bool) error {
	c, err := readBackup(s, file)
	if err != nil {
		return err
	}
	st, err := s.Store(ctx, true)
	if err != nil {
		return err
	}
	url := config.WithoutPassword(s.URL())
	made := c.Now
	c.From = s.Path(file)
	ctx, copying := startCopying(ctx, s)
	out, err := store.Fill(ctx, store.FillRequest{To: st, Copy: c, Replace: force, Carry: carry, Progress: copying.Update, DryRun: s.DryRun})
	err = copying.end(err)
	if errors.Is(err, store.ErrNotEmpty) {
		return &session.DeniedError{
			Text: fmt.Sprintf("%s: %v; --force replaces everything in it", url, err),
			Next: s.CommandLine("restore", file, "--force", "--dry-run"),
		}
	}
	if err != nil {
		return err
	}
	r := restoreResult{File: file, Store: url, Time: made.UTC(), MoveResult: out}
	return s.Answer(r, func(p *term.Printer) {
		p.Line("%s %s of %s into %s.", p.Did("Restored", "Would restore"), term.Plural(out.Records, "record"), p.When(made), r.Store)
		if out.LeftOut > 0 {
			p.Line("%s of waiters and ended leases left out.", term.Plural(out.LeftOut, "record"))
		}
		if !s.DryRun {
			p.Line("Tokens from before are refused: the revision is %d now.", out.Revision)
		}
	})
}

func readBackup(s *session.Session, file string) (store.Copy, error) {
	f, err := os.Open(s.Path(file))
	if err != nil {
		return store.Copy{}, session.Usagef("%v", err)
	}
	defer func() { _ = f.Close() }()
	c, err := store.ReadBackup(f)
	if err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}
