package cli

import (
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/internal/lease"
)

// lockedText says in one sentence who is in the way.
func lockedText(h *lease.HeldError) string {
	if kind, _ := lease.KindOf(h.Key); kind == lease.Path && h.Asked != "" && h.Asked != h.Key {
		return lockedAs(named(h.Asked)+" overlaps "+named(h.Key)+", which", h)
	}
	return lockedAs(named(h.Key), h)
}

// lockedText is the same, with the title of a task that the command is about.
func (a *App) lockedText(h *lease.HeldError) string {
	if title := a.titles[h.Key]; title != "" {
		return lockedAs(`Task "`+short(title, 80)+`"`, h)
	}
	return lockedText(h)
}

func lockedAs(what string, h *lease.HeldError) string {
	if h.Owner == "" {
		return fmt.Sprintf("%s is free, but %s", what, ahead(h))
	}
	s := fmt.Sprintf("%s is locked by %s", what, short(h.Owner, 120))
	if h.Waited > 0 {
		s += ", still after " + rough(h.Waited)
	}
	return s
}

// named is a key for people: Task "fix-bug", Section "Backend".
func named(key string) string {
	kind, name := lease.KindOf(key)
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

// held prints a refusal in two lines: who, and everything known about when.
func (p *printer) held(prefix, text string, h *lease.HeldError) {
	var facts []string
	switch {
	case h.Until.IsZero() && h.Owner != "":
		facts = append(facts, "Lock has no end")
	case !h.Until.IsZero():
		facts = append(facts, "Lock expires at: "+stamp(h.Until)+" ("+p.relative(h.Until)+")")
	}
	if !h.Since.IsZero() {
		facts = append(facts, "held since "+stamp(h.Since)+" ("+p.relative(h.Since)+")")
	}
	if !h.LastSeen.IsZero() {
		seen := "last heartbeat " + p.relative(h.LastSeen)
		if h.Host != "" {
			seen += " on " + short(h.Host, 60)
		}
		if h.PID != 0 {
			seen += fmt.Sprintf(" (pid %d)", h.PID)
		}
		facts = append(facts, seen)
	}
	if h.Owner != "" && h.Ahead+h.Position > 0 {
		facts = append(facts, ahead(h))
	}
	p.line("%s%s.", red.of(prefix), text)
	if len(facts) > 0 {
		p.line("%s.", strings.Join(facts, "; "))
	}
	if why := reasonOf(h.Reason); why != "" {
		p.line("%s", why)
	}
}
