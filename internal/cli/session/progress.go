package session

import (
	"fmt"
	"time"

	"github.com/tasklock/tasklock/internal/cli/term"
)

// How often Progress shows something new: a bar, and a line.
const (
	barEvery  = 50 * time.Millisecond
	lineEvery = 2 * time.Second
)

// Progress shows people how far something long has come, on stderr: a bar on a
// terminal, a line now and then in a pipe.
type Progress struct {
	s    *Session
	did  string // "copied"
	live bool
	last time.Time // when something was shown
	done int       // and what; -1: nothing yet
}

// Progress shows how many records were done something to.
func (s *Session) Progress(did string) *Progress {
	return &Progress{s: s, did: did, live: s.Live(), last: s.Now(), done: -1}
}

// Update says how many of all records are done.
func (p *Progress) Update(done, total int) {
	every := lineEvery
	if p.live {
		every = barEvery
	}
	end := p.done >= 0 && done == total // of what was long enough to be shown
	begins := p.live && p.done < 0
	if p.s.Quiet || done == p.done || p.s.Now().Sub(p.last) < every && !end && !begins {
		return
	}
	p.last, p.done = p.s.Now(), done
	if !p.live {
		p.s.Note("%d of %s %s.", done, term.Plural(total, "record"), p.did)
		return
	}
	term.Redraw(p.s.Stderr, fmt.Sprintf("%s %d of %s", term.Bar(done, total), done, term.Plural(total, "record")))
}

// End clears the bar.
func (p *Progress) End() {
	if p.live && p.done >= 0 {
		term.Erase(p.s.Stderr)
	}
}
