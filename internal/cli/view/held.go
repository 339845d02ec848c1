// Package view holds texts about leases that several commands show: who blocks a
// key, when a lease expires, what was released. It prints and asks nothing.
package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
)

// LockedText names the blocking owner in one sentence.
func LockedText(h *lease.HeldError) string {
	if h.Pool != nil {
		return poolText(h)
	}
	if kind, _ := lease.KindOf(h.Key); kind == lease.Path && h.Asked != "" && h.Asked != h.Key {
		return LockedAs(named(h.Asked)+" overlaps "+named(h.Key)+", which", h)
	}
	return LockedAs(named(h.Key), h)
}

// LockedAs is LockedText under a name that the caller chooses.
func LockedAs(what string, h *lease.HeldError) string {
	if h.Owner == "" {
		return fmt.Sprintf("%s is free, but %s", what, ahead(h))
	}
	s := fmt.Sprintf("%s is locked by %s", what, term.Short(h.Owner, 120))
	if h.Waited > 0 {
		s += ", still after " + term.Rough(h.Waited)
	}
	return s
}

// named is a key for people: Task "fix-bug", Section "Backend".
func named(key string) string {
	kind, name := lease.KindOf(key)
	if of, section := lease.KindOf(name); kind == lease.Pool && of == lease.Section {
		kind, name = of, section
	}
	return strings.ToUpper(string(kind[:1])) + string(kind[1:]) + ` "` + name + `"`
}

func ahead(h *lease.HeldError) string {
	switch {
	case h.Position > 0:
		return fmt.Sprintf("you are number %d in its queue", h.Position)
	case h.Ahead == 1:
		return "1 other waits for it"
	}
	return fmt.Sprintf("%d others wait for it", h.Ahead)
}

// PrintHeld prints a refusal in two lines: who, and everything known about when.
func PrintHeld(p *term.Printer, prefix, text string, h *lease.HeldError) {
	if h.Pool != nil {
		p.Line("%s%s.", term.Red.Of(prefix), text)
		PrintHolders(p, h.Pool.Holders)
		return
	}
	var facts []string
	switch {
	case h.ExpiresAt.IsZero() && h.Owner != "":
		facts = append(facts, "Lock never expires")
	case !h.ExpiresAt.IsZero():
		facts = append(facts, "Lock expires at: "+term.Stamp(h.ExpiresAt.Time)+" ("+p.Relative(h.ExpiresAt.Time)+")")
	}
	if !h.AcquiredAt.IsZero() {
		facts = append(facts, "held since "+term.Stamp(h.AcquiredAt)+" ("+p.Relative(h.AcquiredAt)+")")
	}
	if !h.HeartbeatAt.IsZero() {
		seen := "last heartbeat " + p.Relative(h.HeartbeatAt)
		if h.Host != "" {
			seen += " on " + term.Short(h.Host, 60)
		}
		if h.PID != 0 {
			seen += fmt.Sprintf(" (pid %d)", h.PID)
		}
		facts = append(facts, seen)
	}
	if h.Owner != "" && h.Ahead+h.Position > 0 {
		facts = append(facts, ahead(h))
	}
	p.Line("%s%s.", term.Red.Of(prefix), text)
	if len(facts) > 0 {
		p.Line("%s.", strings.Join(facts, "; "))
	}
	if why := ReasonOf(h.Reason); why != "" {
		p.Line("%s", why)
	}
}

// maxReason is how much of a reason a refused caller sees.
const maxReason = 200

// ReasonOf is the holder's reason, in its own words: foreign text, in one line, and
// marked as such.
func ReasonOf(reason string) string {
	if reason = strings.Join(strings.Fields(reason), " "); reason == "" {
		return ""
	}
	return `Reason, in the holder's words, not an instruction: "` + term.Clean(strings.ReplaceAll(term.Short(reason, maxReason), `"`, "'")) + `".`
}

// The texts for the expiry of a lease. A lease with --ttl none has none.

const (
	NoEnd  = "no end"        // in a field
	Always = "never expires" // in a sentence
)

// Ends is for a sentence: "expires in 57m (2026-…Z)", or "never expires".
func Ends(p *term.Printer, e lease.Expiry) string {
	return expiry(e, Always, func(at time.Time) string { return "expires " + p.When(at) })
}

// EndsIn is for a short sentence: "expires in 57m".
func EndsIn(p *term.Printer, e lease.Expiry) string {
	return expiry(e, Always, func(at time.Time) string { return "expires " + p.Relative(at) })
}

// Expiry is for a field: "in 57m (2026-…Z)".
func Expiry(p *term.Printer, e lease.Expiry) string { return expiry(e, NoEnd, p.When) }

// EndIn is for a column: "in 57m".
func EndIn(p *term.Printer, e lease.Expiry) string { return expiry(e, NoEnd, p.Relative) }

// EndStamp is for scripts.
func EndStamp(e lease.Expiry) string { return expiry(e, NoEnd, term.Stamp) }

func expiry(e lease.Expiry, none string, text func(time.Time) string) string {
	if e.IsZero() {
		return none
	}
	return text(e.Time)
}

// Holding says since when, and what is known of the holder's process: "Held for 3m
// (since 2026-…Z), last heartbeat 1m ago; its process is alive on vm (pid 7)".
func Holding(p *term.Printer, l lease.Info) string {
	s := fmt.Sprintf("Held for %s (since %s), last heartbeat %s; ", term.Rough(p.Now.Sub(l.AcquiredAt)), term.Stamp(l.AcquiredAt), p.Relative(l.HeartbeatAt))
	if l.PID == 0 {
		s += "it is unknown whether its holder is alive"
	} else {
		s += "its process is " + l.Life
	}
	if l.Host != "" {
		s += " on " + term.Short(l.Host, 60)
	}
	if l.PID != 0 {
		s += fmt.Sprintf(" (pid %d)", l.PID)
	}
	return s
}
