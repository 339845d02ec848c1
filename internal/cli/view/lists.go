package view

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/landing"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/task"
)

// Some lists keys, and counts those that are not shown.
func Some(keys []string, more int, unknown bool) string {
	text := strings.Join(keys, ", ")
	switch {
	case more > 0 && unknown:
		return fmt.Sprintf("%s and %d or more", text, more)
	case more > 0:
		return fmt.Sprintf("%s and %d more", text, more)
	}
	return text
}

// SchedulerNames lists the running schedulers.
func SchedulerNames(all []schedule.Pod) string {
	var names []string
	for _, s := range all {
		if s.State == "running" {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}

// PrintListed prints the list in an error.
func PrintListed(p *term.Printer, err error) {
	const most = 10
	var several *task.AmbiguousError
	var busy *lease.BusyError
	var which *lease.WhichSlotError
	var used *lease.PoolBusyError
	var conflict *landing.ConflictError
	n := 0
	switch {
	case errors.As(err, &several):
		n = len(several.Matches)
		for _, t := range several.Matches[:min(n, most)] {
			p.Line("  %s  %s  %s", t.ID, string(t.Status), term.Short(t.Title, 80))
		}
	case errors.As(err, &conflict):
		n = len(conflict.Files)
		for _, f := range conflict.Files[:min(n, most)] {
			p.Line("  %s", f.File)
			printCommits(p, "here", f.Ours)
			printCommits(p, "there", f.Theirs)
		}
	case errors.As(err, &which):
		PrintHolders(p, which.Holders)
	case errors.As(err, &used):
		PrintHolders(p, used.Holders)
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

// printCommits prints one line for each commit of a side.
func printCommits(p *term.Printer, side string, commits []landing.Commit) {
	for _, c := range commits {
		p.Line("    %-5s %s %s (%s)", side, c.ID, term.Short(c.Subject, 80), term.Short(c.Author, 40))
	}
}

// PrintEvents prints a table of the history. A coding agent reads the one for people.
func PrintEvents(p *term.Printer, agent bool, events []lease.Event) {
	p.Wide = p.Wide || agent
	var rows [][]term.Text
	for _, e := range events {
		rows = append(rows, EventRow(e))
	}
	p.List("Nothing happened yet.", []string{"TIME", "EVENT", "KEYS", "OWNER", "TOKEN", "WHY"}, rows)
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
	if e.Waited > 0 {
		why = append(why, "waited "+waited(e))
	}
	for _, s := range []string{e.Why, term.Short(e.Reason, 120)} {
		if s != "" {
			why = append(why, s)
		}
	}
	return term.Row(term.Faint.Of(term.Stamp(e.Time)), look.Of(e.Event), term.Strong.Of(strings.Join(e.Keys, ", ")), term.Short(e.Owner, 60), e.Token, strings.Join(why, ": "))
}

func waited(e lease.Event) string {
	d := time.Duration(e.Waited * float64(time.Second))
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return term.Rough(d)
}

// ReleaseData is a release with every field present.
type ReleaseData struct {
	Released []lease.Released `json:"released"`
	Free     []string         `json:"free"`
	Never    []string         `json:"never,omitempty"` // of these: never held by the caller
	Left     []string         `json:"left,omitempty"`  // free when their users end
}

// NewReleaseData makes every field of a release present.
func NewReleaseData(r lease.ReleaseResult) ReleaseData {
	return ReleaseData{Released: append([]lease.Released{}, r.Released...), Free: append([]string{}, r.Free...), Never: r.Never, Left: r.Left}
}

// PrintReleased says what was released, and what was free already.
func PrintReleased(p *term.Printer, did, would string, out lease.ReleaseResult) {
	for _, r := range out.Released {
		p.Line("%s %s (token %d, held by %s).", p.Did(did, would), r.Key, r.Token, term.Short(r.Owner, 120))
	}
	for _, k := range out.Free {
		if kind, _ := lease.KindOf(k); kind == lease.Pool {
			p.Line("%s: that owner held no slot of it.", k)
			continue
		}
		if slices.Contains(out.Never, k) {
			p.Line("%s was free already, and never yours as far as the history goes back.", k)
			continue
		}
		p.Line("%s was free already.", k)
	}
	for _, k := range out.Left {
		p.Line("%s stays locked until those who work under it end (tasklock show %s names them).", k, k)
	}
	if len(out.Released)+len(out.Free)+len(out.Left) == 0 {
		p.Line("Nothing was held.")
	}
}
