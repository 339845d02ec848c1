package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
)

type watchOptions struct{ count int }

func newWatchCmd(a *App) *cobra.Command {
	o := &watchOptions{}
	cmd := &cobra.Command{
		Use:   "watch [KEY...]",
		Short: "Print what happens, as it happens",
		Long: `Print events as they happen, of all keys or of those named, until Ctrl+C.
With --json every line is one event.`,
		ValidArgsFunction: a.heldKeys,
		RunE:              a.forKeys(func(ctx context.Context, keys []string) error { return o.run(ctx, a, keys) }),
	}
	cmd.Flags().IntVar(&o.count, "count", 0, "end after so many events; 0: never")
	return cmd
}

// errEnough ends a watch that has seen what it wanted.
var errEnough = errors.New("enough")

func (o *watchOptions) run(ctx context.Context, a *App, keys []string) (err error) {
	for i, k := range keys {
		if keys[i], err = lease.CheckKey(k); err != nil {
			return err
		}
	}
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	if keys, err = lease.WithTasks(ctx, st, keys); err != nil {
		return err
	}
	ctx, signals := newListener(ctx)
	defer signals.stop()
	signals.listen()
	seen := 0
	ready := func() { a.note("Watching... (Ctrl+C to end)") }
	err = lease.Watch(ctx, st, ready, func(e lease.Event) error {
		if len(keys) > 0 && !slices.ContainsFunc(e.Keys, func(k string) bool { return slices.Contains(keys, k) }) {
			return nil
		}
		if err := a.event(e); err != nil {
			return err
		}
		if seen++; seen == o.count {
			return errEnough
		}
		return nil
	})
	var s *signalError
	if errors.Is(err, errEnough) || errors.As(interrupted(ctx, err), &s) {
		return nil // that is how a watch ends
	}
	return err
}

func (a *App) event(e lease.Event) error {
	if a.JSON {
		return a.writeJSON(e)
	}
	p := a.printer()
	args := make([]any, 0, 6)
	for _, c := range eventRow(e) {
		args = append(args, styled(c))
	}
	p.line(strings.TrimSpace(strings.Repeat("%s\t", len(args))), args...)
	return p.flush()
}
