package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
)

type historyOptions struct {
	whose
	limit int
}

func newHistoryCmd(a *App) *cobra.Command {
	o := &historyOptions{}
	cmd := &cobra.Command{
		Use:   "history [KEY]",
		Short: "Show what happened, oldest first",
		Long: `Show what happened: who acquired, released, took over, broke or cleaned up what,
and why. With KEY only that key; --mine and --of OWNER narrow it to one owner and
its children.`,
		Args:              atMostOneKey,
		ValidArgsFunction: a.heldKeys,
		RunE:              a.forKeys(func(ctx context.Context, keys []string) error { return o.run(ctx, a, keys) }),
	}
	o.whose.flags(cmd)
	cmd.Flags().IntVar(&o.limit, "limit", 50, "at most so many, the newest; 0: all")
	return cmd
}

func (o *historyOptions) run(ctx context.Context, a *App, keys []string) error {
	if o.limit < 0 {
		return usagef("--limit: must not be negative")
	}
	r := lease.HistoryRequest{Owner: o.owner(a), Limit: o.limit}
	if len(keys) > 0 {
		key, err := lease.CheckKey(keys[0])
		if err != nil {
			return err
		}
		r.Key = key
	}
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := lease.History(ctx, st, r)
	if err != nil {
		return err
	}
	if out.Events == nil {
		out.Events = []lease.Event{}
	}
	return a.answer(out, func(p *printer) {
		p.wide = p.wide || a.Identity().Agent
		if len(out.Events) == 0 && p.wide {
			p.line("Nothing happened yet.")
			return
		}
		p.events(out.Events)
	})
}

func (p *printer) events(events []lease.Event) {
	var rows [][]styled
	for _, e := range events {
		rows = append(rows, eventRow(e))
	}
	p.table([]string{"TIME", "EVENT", "KEYS", "OWNER", "TOKEN", "WHY"}, rows)
}

func eventRow(e lease.Event) []styled {
	look := normal
	switch e.Event {
	case "acquired":
		look = green
	case "taken over", "broken", "expired":
		look = red
	}
	var why []string
	if e.By != "" && e.By != e.Owner {
		why = append(why, "by "+short(e.By, 60))
	}
	for _, s := range []string{e.Why, short(e.Reason, 120)} {
		if s != "" {
			why = append(why, s)
		}
	}
	return row(faint.of(stamp(e.Time)), look.of(e.Event), strong.of(strings.Join(e.Keys, ", ")), short(e.Owner, 60), e.Token, strings.Join(why, ": "))
}
