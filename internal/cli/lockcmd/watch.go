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
	"github.com/tasklock/tasklock/store"
)

type watchOptions struct {
	count  int
	since  int64
	cursor string // --exec
	under  bool   // the inner process of --exec
	seen   int    // events
}

func NewWatch(s *session.Session) *cobra.Command {
	o := &watchOptions{}
	cmd := &cobra.Command{
		Use:   "watch [KEY...] [--exec NAME -- COMMAND [ARG...]]",
		Short: "Print what happens, as it happens",
		Long: `Print events as they happen, of all keys or of the named ones, until Ctrl+C.

With --json every line is one event, and rev is the revision of the commit that wrote
it. To go on later, watch --since the rev of the last line without "more": true, which
says that more events of the same commit follow. --since 0 begins with all that the
history has.

If the history no longer has all events after the revision, the first line is a gap:
look at what is locked now (tasklock list), and read on.

--exec NAME runs the command for each event, one after the other, with the event as
JSON on its input. The store keeps under NAME how far that has come: the same command
line goes on there, and a new NAME begins now, or after --since. A command that fails
runs again after 1s, 2s, 4s, up to 1m, until it succeeds: later events wait. Each event
is delivered at least once: after a crash, or when the lock is lost, the last ones may
come again. Only the holder of the lock watch:NAME runs the command, and a second
watcher stands by. After a gap the command gets an event "gap". What the command itself
does with tasklock causes no further events for it.

Exit codes:
  0  Ctrl+C, or --count events came
  7  --exec: the lock watch:NAME was lost
  11  the store has not reached the revision: it is that of another store`,
		Example: `  tasklock watch deploy
  tasklock watch --json --since 4711
  tasklock watch --exec pager -- ./notify.sh`,
		ValidArgsFunction: s.HeldKeys(),
	}
	cmd.RunE = s.Run(func(ctx context.Context, args []string) error {
		dash := cmd.ArgsLenAtDash()
		if dash < 0 {
			dash = len(args)
		}
		keys, err := s.Keys(args[:dash:dash])
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("since") {
			o.since = lease.FromNow
		}
		return o.run(ctx, s, keys, args[dash:])
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		dash := cmd.ArgsLenAtDash()
		switch exec := cmd.Flags().Changed("exec"); {
		case cmd.Flags().Changed("since") && o.since < 0:
			return session.Usagef("--since: must not be negative")
		case o.count < 0:
			return session.Usagef("--count: must not be negative")
		case exec && o.cursor == "":
			return session.Usagef("--exec: needs a name")
		case exec && (dash < 0 || dash == len(args)):
			return session.Usagef("--exec needs a command after --: tasklock watch --exec NAME -- COMMAND")
		case !exec && dash >= 0 && dash < len(args):
			return session.Usagef("a command needs --exec NAME: tasklock watch --exec NAME -- COMMAND")
		}
		return nil
	}
	cmd.Flags().IntVar(&o.count, "count", 0, "end after this many events; 0: never")
	cmd.Flags().Int64Var(&o.since, "since", 0, "begin with the events after this revision (default: from now on)")
	cmd.Flags().StringVar(&o.cursor, "exec", "", "run a command for each event; the store keeps under this name how far it has come")
	cmd.Flags().BoolVar(&o.under, "under", false, "run the command under the lock of the process above")
	_ = cmd.Flags().MarkHidden("under")
	return cmd
}

// errEnough ends a watch that has seen what it wanted.
var errEnough = errors.New("enough")

func (o *watchOptions) run(ctx context.Context, s *session.Session, keys, command []string) error {
	st, err := s.Store(ctx, o.cursor != "")
	if err != nil {
		return err
	}
	if keys, err = lease.WithTasks(ctx, st, keys); err != nil {
		return err
	}
	if len(command) > 0 && !o.under {
		return o.hold(ctx, s, st, keys, command)
	}
	ctx, stop := session.Listen(ctx)
	defer stop()
	if o.under {
		err = o.deliver(ctx, s, st, keys, command)
	} else {
		err = o.print(ctx, s, st, keys)
	}
	var signal *session.SignalError
	if errors.Is(err, errEnough) || errors.As(session.Interrupted(ctx, err), &signal) {
		return nil // that is how a watch ends
	}
	return err
}

func (o *watchOptions) print(ctx context.Context, s *session.Session, st *store.Store, keys []string) error {
	ready := func(int64) { s.Note("Watching... (Ctrl+C to end)") }
	return lease.Watch(ctx, st, lease.WatchRequest{Since: o.since}, ready, func(g lease.Group) error {
		for _, line := range linesOf(g, keys, s.CommandLine("list")) {
			if err := line.print(s); err != nil {
				return err
			}
			if o.seen++; o.seen == o.count {
				return errEnough
			}
		}
		return nil
	})
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
