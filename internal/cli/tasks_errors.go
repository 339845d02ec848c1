package cli

import (
	"errors"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// listed prints what an error names more than one of.
func (p *printer) listed(err error) {
	const most = 10
	var several *task.AmbiguousError
	var busy *lease.BusyError
	n := 0
	switch {
	case errors.As(err, &several):
		n = len(several.Matches)
		for _, t := range several.Matches[:min(n, most)] {
			p.line("  %s  %s  %s", t.ID, string(t.Status), short(t.Title, 80))
		}
	case errors.As(err, &busy) && len(busy.Holders) > 1:
		n = len(busy.Holders)
		for _, h := range busy.Holders[:min(n, most)] {
			p.line("  %s  held by %s, %s", h.Key, short(h.Owner, 60), p.ends(h.ExpiresAt))
		}
	}
	if n > most {
		p.line("  … and %d more", n-most)
	}
}
