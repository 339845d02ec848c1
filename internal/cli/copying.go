package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// carry is how records of every kind travel to another store.
func carry(c store.Copy) func(driver.Record) (driver.Write, bool) {
	leases := lease.Carry(c)
	return func(r driver.Record) (driver.Write, bool) {
		if worker.Stays(r.Key) || schedule.Stays(r.Key) {
			return driver.Write{}, false
		}
		return leases(r)
	}
}

// copying tells people how far a copy has come, on stderr: a terminal sees a
// bar, a pipe a line now and then.
type copying struct {
	a    *App
	live bool
	last time.Time // when something was shown
	done int       // and what; -1: nothing yet
}

const copyingEvery = 2 * time.Second

func (a *App) copying() *copying {
	return &copying{a: a, live: isTerminal(a.Stderr) && a.Env("TERM") != "dumb", last: a.Now(), done: -1}
}

func (c *copying) update(done, total int) {
	every := copyingEvery
	if c.live {
		every = liveEvery / 4
	}
	end := c.done >= 0 && done == total // of what was long enough to be shown
	begins := c.live && c.done < 0
	if c.a.Quiet || done == c.done || c.a.Now().Sub(c.last) < every && !end && !begins {
		return
	}
	c.last, c.done = c.a.Now(), done
	if !c.live {
		c.a.note("%d of %s copied.", done, plural(total, "record"))
		return
	}
	redraw(c.a.Stderr, fmt.Sprintf("%s %d of %s", part(done, total), done, plural(total, "record")))
}

// end clears the bar.
func (c *copying) end() {
	if c.live && c.done >= 0 {
		erase(c.a.Stderr)
	}
}

// part is a bar of how much is done: [=====>      ].
func part(done, total int) string {
	const width = 26
	n := 0
	if total > 0 {
		n = min(done, total) * (width - 1) / total
	}
	return "[" + strings.Repeat("=", n) + ">" + strings.Repeat(" ", width-1-n) + "]"
}
