package cli

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
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

func (f *staleFlag) Type() string   { return "minutes" }
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

func newCleanupCmd(a *App) *cobra.Command {
	o := &cleanupOptions{}
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Free what expired or whose process is dead",
		Long: `Free the locks that have expired or whose process is provably dead, drop waiters
that never came back, and bound the history. None of this is ever needed: whoever
wants such a lock takes it over.

--stale-minutes also breaks locks that are in force but gave no sign of life for
so long. Their holders may still be working, so it asks first, or needs --force.
Locks without an end give no such signs, and stay: break ends them.
--archived instead frees the locks of archived tasks, and no others. --compact
instead drops the history of the branch that a git store keeps; what the records
and ` + "`tasklock history`" + ` say stays.`,
		Example: `  tasklock cleanup --dry-run
  tasklock cleanup --stale-minutes 5 --force`,
		Args: noArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error { return o.run(ctx, a) }),
	}
	cmd.Flags().Var(&o.stale, "stale-minutes", "also break locks that were silent for so many minutes")
	cmd.Flags().BoolVar(&o.force, "force", false, "do not ask")
	cmd.Flags().BoolVar(&o.archived, "archived", false, "free the locks of archived tasks, and no others")
	cmd.Flags().BoolVar(&o.compact, "compact", false, "drop the commits of a git store but the last")
	cmd.MarkFlagsMutuallyExclusive("archived", "stale-minutes", "compact")
	return cmd
}

func (o *cleanupOptions) run(ctx context.Context, a *App) error {
	if o.compact {
		return compact(ctx, a)
	}
	id := a.Identity()
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	if o.archived {
		return cleanupArchived(ctx, a, st)
	}
	r := lease.CleanupRequest{By: id.Owner, Silent: o.stale.silence(), DryRun: a.DryRun}
	if o.stale.given && !o.force && !a.DryRun {
		if err := o.ask(ctx, a, st, r); err != nil {
			return err
		}
	}
	out, err := lease.Cleanup(ctx, st, r)
	if err != nil {
		return err
	}
	fires, err := schedule.Cleanup(ctx, st, a.DryRun)
	if err != nil {
		return err
	}
	out.Pruned += fires
	return a.answer(out, func(p *printer) { p.cleaned(out, a.DryRun) })
}

// ask shows what would be broken and waits for a yes. Without a person to ask
// it is refused.
func (o *cleanupOptions) ask(ctx context.Context, a *App, st *store.Store, r lease.CleanupRequest) error {
	refused := &deniedError{
		text: "breaking locks that are in force needs --force, or a yes at a terminal",
		next: a.commandLine("cleanup", "--stale-minutes", strconv.FormatFloat(o.stale.minutes, 'g', -1, 64), "--dry-run"),
	}
	if !isTerminal(a.Stdin) || !isTerminal(a.Stderr) || a.JSON {
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
			a.note("  %s, held by %s, last heartbeat %s ago", l.Key, short(l.Owner, 60), rough(a.Now().Sub(l.HeartbeatAt)))
		}
	}
	if live == 0 {
		return nil
	}
	fmt.Fprintf(a.Stderr, "Break %s that may still be worked under? [y/N] ", plural(live, "lock"))
	answer, _ := bufio.NewReader(a.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	refused.text = "not broken: the answer was no"
	return refused
}

func (p *printer) cleaned(c lease.CleanupResult, dry bool) {
	verb := green.of("Freed")
	if dry {
		verb = yellow.of("Would free")
	}
	for _, l := range c.Freed {
		why := string(l.State)
		if l.State == lease.Held {
			why = "silent for " + rough(p.now.Sub(l.HeartbeatAt))
		}
		p.line("%s %s of %s (%s).", verb, l.Key, short(l.Owner, 60), why)
	}
	if len(c.Freed) == 0 {
		p.line("Nothing to free.")
	}
	if c.Tickets+c.Pruned > 0 {
		p.line("Old records: %s, %s of history.", plural(c.Tickets, "waiter"), plural(c.Pruned, "line"))
	}
}
