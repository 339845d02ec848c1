package setupcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
)

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
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	st, err := s.Store(ctx, true)
	if err != nil {
		return err
	}
	url, _ := cfg.Store()
	ctx, signals := session.NewListener(ctx)
	defer signals.Stop()
	signals.Listen()
	bar := newCopying(s)
	made := c.Now
	c.From = s.Path(file)
	out, err := store.Fill(ctx, store.FillRequest{To: st, Copy: c, Replace: force, Carry: carry, Progress: bar.update, DryRun: s.DryRun})
	bar.end()
	if errors.Is(err, store.ErrNotEmpty) {
		return &session.DeniedError{
			Text: fmt.Sprintf("%s: %v; --force replaces everything in it", config.WithoutPassword(url), err),
			Next: s.CommandLine("restore", file, "--force", "--dry-run"),
		}
	}
	if err != nil {
		return session.Interrupted(ctx, err)
	}
	r := restoreResult{File: file, Store: config.WithoutPassword(url), Time: made.UTC(), MoveResult: out}
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
