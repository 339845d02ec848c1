package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/store"
)

func newRestoreCmd(a *App) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put the records of a backup into the store",
		Long: `Put the records of a backup into the store, which must be empty. With --force
whatever is there is replaced, held locks too.

The revision is lifted by more than 2^32: no token that was given out since the
backup was made is given out again, and whoever worked under one is refused. Two
stores that are restored from one backup give out different tokens. Leases of the
backup whose ttl has passed stay out, so their locks are free and their tasks are
pending. A restore that was interrupted goes on when it is repeated; until then the
store is closed.`,
		Example: "  tasklock restore locks.jsonl --dry-run",
		Args:    oneFile,
		RunE:    a.does(func(ctx context.Context, args []string) error { return restore(ctx, a, args[0], force) }),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace what is in the store")
	return cmd
}

// restoreResult is what restore did.
type restoreResult struct {
	File  string    `json:"file"`
	Store string    `json:"store"`
	Time  time.Time `json:"time"` // of the backup
	store.MoveResult
}

func restore(ctx context.Context, a *App, file string, force bool) error {
	c, err := a.readBackup(file)
	if err != nil {
		return err
	}
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	st, err := a.Store(ctx, true)
	if err != nil {
		return err
	}
	url, _ := cfg.Store()
	ctx, signals := newListener(ctx)
	defer signals.stop()
	signals.listen()
	bar := a.copying()
	made := c.Now
	c.From = a.path(file)
	out, err := store.Fill(ctx, store.FillRequest{To: st, Copy: c, Replace: force, Carry: carry, Progress: bar.update, DryRun: a.DryRun})
	bar.end()
	if errors.Is(err, store.ErrNotEmpty) {
		return &deniedError{
			text: fmt.Sprintf("%s: %v; --force replaces everything in it", withoutPassword(url), err),
			next: a.commandLine("restore", file, "--force", "--dry-run"),
		}
	}
	if err != nil {
		return interrupted(ctx, err)
	}
	r := restoreResult{File: file, Store: withoutPassword(url), Time: made.UTC(), MoveResult: out}
	return a.answer(r, func(p *printer) {
		p.line("%s %s of %s into %s.", a.did("Restored", "Would restore"), plural(out.Records, "record"), p.when(made), r.Store)
		if out.LeftOut > 0 {
			p.line("%s of leases that are over left out.", plural(out.LeftOut, "record"))
		}
		if !a.DryRun {
			p.line("Tokens from before are refused: the revision is %d now.", out.Revision)
		}
	})
}

func (a *App) readBackup(file string) (store.Copy, error) {
	f, err := os.Open(a.path(file))
	if err != nil {
		return store.Copy{}, usagef("%v", err)
	}
	defer func() { _ = f.Close() }()
	c, err := store.ReadBackup(f)
	if err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}
