package lockcmd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
)

type watchOptions struct {
	count int
	since int64
}

func NewWatch(s *session.Session) *cobra.Command {
	o := &watchOptions{}
	cmd := &cobra.Command{
		Use:   "watch [KEY...]",
		Short: "Print what happens, as it happens",
		Long: `Print events as they happen, of all keys or of the named ones, until Ctrl+C.

With --json every line is one event, and rev is the revision of the commit that wrote
it. To go on later, watch --since the rev of the last line without "more": true, which
says that more events of the same commit follow. --since 0 begins with all that the
history has.

If the history no longer has all events after the revision, the first line is a gap:
look at what is locked now (tasklock list), and read on.

Exit codes:
  0  Ctrl+C, or --count events came
  11  the store has not reached the revision: it is that of another store`,
		Example: `  tasklock watch deploy
  tasklock watch --json --since 4711`,
		ValidArgsFunction: s.HeldKeys(),
	}
	cmd.RunE = s.RunKeys(func(ctx context.Context, keys []string) error {
		if !cmd.Flags().Changed("since") {
			o.since = lease.FromNow
		} else if o.since < 0 {
			return session.Usagef("--since: must not be negative")
		}
		return o.run(ctx, s, keys)
	})
	cmd.Flags().IntVar(&o.count, "count", 0, "end after this many events; 0: never")
	cmd.Flags().Int64Var(&o.since, "since", 0, "begin with the events after this revision (default: from now on)")
	return cmd
}

// errEnough ends a watch that has seen what it wanted.
var errEnough = errors.New("enough")

func (o *watchOptions) run(ctx context.Context, s *session.Session, keys []string) error {
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	if keys, err = lease.WithTasks(ctx, st, keys); err != nil {
		return err
	}
	ctx, stop := session.Listen(ctx)
	defer stop()
	seen := 0
	ready := func(int64) { s.Note("Watching... (Ctrl+C to end)") }
	err = lease.Watch(ctx, st, lease.WatchRequest{Since: o.since}, ready, func(g lease.Group) error {
		for _, line := range linesOf(g, keys, s.CommandLine("list")) {
			if err := line.print(s); err != nil {
				return err
			}
			if seen++; seen == o.count {
				return errEnough
			}
		}
		return nil
	})
	var signal *session.SignalError
	if errors.Is(err, errEnough) || errors.As(session.Interrupted(ctx, err), &signal) {
		return nil // that is how a watch ends
	}
	return err
}

// A watchedEvent is one line of a watch.
type watchedEvent struct {
	lease.Event
	More bool   `json:"more,omitempty"` // another event of the same commit follows
	Next string `json:"next,omitempty"` // after a gap, the command that shows what is true now
}

// linesOf are the events of a group about some keys; no keys: about all. list is the
// command that helps after a gap.
func linesOf(g lease.Group, keys []string, list string) (lines []watchedEvent) {
	if g.Gap {
		gap := lease.Event{Rev: g.Rev, Event: "gap", Why: "the history no longer has all events before this revision"}
		return []watchedEvent{{Event: gap, Next: list}}
	}
	for _, e := range g.Events {
		if len(keys) == 0 || slices.ContainsFunc(keys, e.About) {
			lines = append(lines, watchedEvent{Event: e, More: true})
		}
	}
	if len(lines) > 0 {
		lines[len(lines)-1].More = false
	}
	return lines
}

func (e watchedEvent) print(s *session.Session) error {
	if s.JSON {
		return s.WriteJSON(e)
	}
	p := s.Printer()
	if e.Next != "" {
		p.Line("Gap: %s (%d). Look at what is true now: %s", e.Why, e.Rev, e.Next)
		return p.Flush()
	}
	args := make([]any, 0, 6)
	for _, c := range view.EventRow(e.Event) {
		args = append(args, term.Text(c))
	}
	p.Line(strings.TrimSpace(strings.Repeat("%s\t", len(args))), args...)
	return p.Flush()
}
