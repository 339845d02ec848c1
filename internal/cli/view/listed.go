package view

import (
	"errors"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// PrintListed prints the list in an error.
func PrintListed(p *term.Printer, err error) {
	const most = 10
	var several *task.AmbiguousError
	var busy *lease.BusyError
	n := 0
	switch {
	case errors.As(err, &several):
		n = len(several.Matches)
		for _, t := range several.Matches[:min(n, most)] {
			p.Line("  %s  %s  %s", t.ID, string(t.Status), term.Short(t.Title, 80))
		}
	case errors.As(err, &busy) && len(busy.Holders) > 1:
		n = len(busy.Holders)
		for _, h := range busy.Holders[:min(n, most)] {
			p.Line("  %s  held by %s, %s", h.Key, term.Short(h.Owner, 60), Ends(p, h.ExpiresAt))
		}
	}
	if n > most {
		p.Line("  … and %d more", n-most)
	}
}
