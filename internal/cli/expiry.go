package cli

import (
	"fmt"

	"github.com/tasklock/tasklock/internal/lease"
)

// How the end of a lease is written. A lease that was taken with --ttl none has
// none.

const noEnd = "no end"

// ends is for a sentence: "expires in 57m (2026-…Z)", or "no end".
func (p *printer) ends(e lease.Expiry) string {
	if e.IsZero() {
		return noEnd
	}
	return "expires " + p.when(e.Time)
}

// expiry is for a field: "in 57m (2026-…Z)".
func (p *printer) expiry(e lease.Expiry) string {
	if e.IsZero() {
		return noEnd
	}
	return p.when(e.Time)
}

// endIn is for a column: "in 57m".
func (p *printer) endIn(e lease.Expiry) string {
	if e.IsZero() {
		return noEnd
	}
	return p.relative(e.Time)
}

// endsIn is for a short sentence: "expires in 57m".
func (p *printer) endsIn(e lease.Expiry) string {
	if e.IsZero() {
		return noEnd
	}
	return "expires " + p.relative(e.Time)
}

// endStamp is for scripts.
func endStamp(e lease.Expiry) string {
	if e.IsZero() {
		return noEnd
	}
	return stamp(e.Time)
}

// holding is since when, and what is known of the holder's process: "Held for 3m
// (since 2026-…Z), last heartbeat 1m ago; its process is alive on vm (pid 7)".
func (p *printer) holding(l lease.Info) string {
	s := fmt.Sprintf("Held for %s (since %s), last heartbeat %s; ", rough(p.now.Sub(l.AcquiredAt)), stamp(l.AcquiredAt), p.relative(l.HeartbeatAt))
	if l.PID == 0 {
		s += "it is unknown whether its holder is alive"
	} else {
		s += "its process is " + l.Life
	}
	if l.Host != "" {
		s += " on " + short(l.Host, 60)
	}
	if l.PID != 0 {
		s += fmt.Sprintf(" (pid %d)", l.PID)
	}
	return s
}
