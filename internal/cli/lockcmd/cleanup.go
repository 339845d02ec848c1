package lockcmd

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
	"github.com/tasklock/tasklock/task"
)

type cleanupOptions struct {
	stale    staleFlag
	force    bool
	archived bool
	compact  bool
}

// staleFlag is a number of minutes, 0 included.
type staleFlag struct {
	minutes float64
	given   bool
}

func (f *staleFlag) Type() string { return "minutes" }

func (f *staleFlag) String() string { return "" }

func (f *staleFlag) Set(s string) error {
	n, err := strconv.ParseFloat(s, 64)
	if limit := lease.MaxTTL.Minutes(); err != nil || !(n >= 0 && n <= limit) {
		return fmt.Errorf("must be a number of minutes between 0 and %g", limit)
	}
	f.minutes, f.given = n, true
	return nil
}

// silence is at least something: 0 means everything.
func (f *staleFlag) silence() time.Duration {
	if !f.given {
		return 0
	}
	return max(time.Nanosecond, time.Duration(f.minutes*float64(time.Minute)))
}

func NewCleanup(s *session.Session) *cobra.Command {
	o := &cleanupOptions{}
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Free locks that expired or whose process is dead",
		Long: `Free locks that have expired or whose process is provably dead, drop waiters that
never came back, and shorten the history. You never need this: the next owner takes
over such a lock.

--stale-minutes also breaks locks in force without a heartbeat for that long. Their
holders may still work, so it asks first, or needs --force. Locks that never expire
have no heartbeats, and stay: break ends them.

--archived frees the locks of archived tasks, and no others. --compact drops the
history of a git store's branch; the records and "tasklock history" stay.`,
		Example: `  tasklock cleanup --dry-run
  tasklock cleanup --stale-minutes 5 --force`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return o.run(ctx, s) }),
	}
	cmd.Flags().Var(&o.stale, "stale-minutes", "also break locks without a heartbeat for this many minutes")
	cmd.Flags().BoolVar(&o.force, "force", false, "do not ask")
	cmd.Flags().BoolVar(&o.archived, "archived", false, "free only the locks of archived tasks")
	cmd.Flags().BoolVar(&o.compact, "compact", false, "drop all commits of a git store but the last")
	cmd.MarkFlagsMutuallyExclusive("archived", "stale-minutes", "compact")
	return cmd
}

func (o *cleanupOptions) run(ctx context.Context, s *session.Session) error {
	if o.compact {
		return compact(ctx, s)
	}
	id := s.Identity()
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	if o.archived {
		return cleanupArchived(ctx, s, st)
	}
	r := lease.CleanupRequest{By: id.Owner, Silent: o.stale.silence(), DryRun: s.DryRun}
	if o.stale.given && !o.force && !s.DryRun {
		if err := o.ask(ctx, s, st, r); err != nil {
			return err
		}
	}
	progress := s.Progress("cleaned up")
	r.Progress = progress.Update
	out, err := lease.Cleanup(ctx, st, r)
	progress.End()
	if err != nil {
		return err
	}
	fires, err := schedule.Cleanup(ctx, st, s.DryRun)
	if err != nil {
		return err
	}
	out.Pruned += fires
	return s.Answer(out, func(p *term.Printer) { printCleanup(p, out) })
}

// ask shows what would be broken and waits for a yes. Without a terminal it refuses.
func (o *cleanupOptions) ask(ctx context.Context, s *session.Session, st *store.Store, r lease.CleanupRequest) error {
	refused := &session.DeniedError{
		Text: "breaking locks that are in force needs --force, or a yes at a terminal",
		Next: s.CommandLine("cleanup", "--stale-minutes", strconv.FormatFloat(o.stale.minutes, 'g', -1, 64), "--dry-run"),
	}
	if !term.IsTerminal(s.Stdin) || !term.IsTerminal(s.Stderr) || s.JSON {
		return refused
	}
	r.DryRun = true
	found, err := lease.Cleanup(ctx, st, r)
	if err != nil {
		return err
	}
	live := 0
	for _, l := range found.Freed {
		if l.State == lease.Held {
			live++
			s.Note("  %s, held by %s, last heartbeat %s ago", l.Key, term.Short(l.Owner, 60), term.Rough(s.Now().Sub(l.HeartbeatAt)))
		}
	}
	if live == 0 {
		return nil
	}
	fmt.Fprintf(s.Stderr, "Break %s whose holders may still work? [y/N] ", term.Plural(live, "lock"))
	answer, _ := bufio.NewReader(s.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	refused.Text = "not broken: the answer was no"
	return refused
}

func printCleanup(p *term.Printer, c lease.CleanupResult) {
	for _, l := range c.Freed {
		why := string(l.State)
		if l.State == lease.Held {
			why = "silent for " + term.Rough(p.Now.Sub(l.HeartbeatAt))
		}
		p.Line("%s %s of %s (%s).", p.Did("Freed", "Would free"), l.Key, term.Short(l.Owner, 60), why)
	}
	if len(c.Freed) == 0 {
		p.Line("Nothing to free.")
	}
	if c.Tickets+c.Pruned > 0 {
		p.Line("Old records: %s, %s of history.", term.Plural(c.Tickets, "waiter"), term.Plural(c.Pruned, "line"))
	}
}

// cleanupArchived frees the locks of archived tasks, and nothing else.
func cleanupArchived(ctx context.Context, s *session.Session, st *store.Store) error {
	freed := []string{}
	for { // one commit has room for some only
		some, err := task.FreeArchived(ctx, st, s.Identity().Owner, s.DryRun)
		if err != nil {
			return err
		}
		freed = append(freed, some...)
		if s.DryRun || len(some) == 0 {
			break
		}
	}
	return s.Answer(map[string][]string{"freed": freed}, func(p *term.Printer) {
		for _, key := range freed {
			p.Line("%s %s (archived).", p.Did("Freed", "Would free"), key)
		}
		if len(freed) == 0 {
			p.Line("Nothing to free.")
		}
	})
}

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
