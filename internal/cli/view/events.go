package view

import (
	"strings"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
)

// PrintEvents prints a table of the history.
func PrintEvents(p *term.Printer, events []lease.Event) {
	var rows [][]term.Text
	for _, e := range events {
		rows = append(rows, EventRow(e))
	}
	p.Table([]string{"TIME", "EVENT", "KEYS", "OWNER", "TOKEN", "WHY"}, rows)
}

// EventRow is one line of the history.
func EventRow(e lease.Event) []term.Text {
	look := term.Normal
	switch e.Event {
	case "acquired":
		look = term.Green
	case "taken over", "broken", "expired":
		look = term.Red
	}
	var why []string
	if e.By != "" && e.By != e.Owner {
		why = append(why, "by "+term.Short(e.By, 60))
	}
	for _, s := range []string{e.Why, term.Short(e.Reason, 120)} {
		if s != "" {
			why = append(why, s)
		}
	}
	return term.Row(term.Faint.Of(term.Stamp(e.Time)), look.Of(e.Event), term.Strong.Of(strings.Join(e.Keys, ", ")), term.Short(e.Owner, 60), e.Token, strings.Join(why, ": "))
}
