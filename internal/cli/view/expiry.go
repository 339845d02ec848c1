package view

import (
	"fmt"

	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
)

// The texts for the expiry of a lease. A lease with --ttl none has none.

const (
	NoEnd  = "no end"        // in a field
	Always = "never expires" // in a sentence
)

// Ends is for a sentence: "expires in 57m (2026-…Z)", or "never expires".
func Ends(p *term.Printer, e lease.Expiry) string {
	if e.IsZero() {
		return Always
	}
	return "expires " + p.When(e.Time)
}

// Expiry is for a field: "in 57m (2026-…Z)".
func Expiry(p *term.Printer, e lease.Expiry) string {
	if e.IsZero() {
		return NoEnd
	}
	return p.When(e.Time)
}

// EndIn is for a column: "in 57m".
func EndIn(p *term.Printer, e lease.Expiry) string {
	if e.IsZero() {
		return NoEnd
	}
	return p.Relative(e.Time)
}

// EndsIn is for a short sentence: "expires in 57m".
func EndsIn(p *term.Printer, e lease.Expiry) string {
	if e.IsZero() {
		return Always
	}
	return "expires " + p.Relative(e.Time)
}

// EndStamp is for scripts.
func EndStamp(e lease.Expiry) string {
	if e.IsZero() {
		return NoEnd
	}
	return term.Stamp(e.Time)
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
