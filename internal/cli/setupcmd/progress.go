package setupcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
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

// copying is a copy that a signal can end. It shows people how far it has come, on
// stderr: a bar on a terminal, a line now and then in a pipe.
type copying struct {
	s    *session.Session
	ctx  context.Context
	stop func()
	live bool
	last time.Time // when something was shown
	done int       // and what; -1: nothing yet
}

const copyingEvery = 2 * time.Second

func startCopying(ctx context.Context, s *session.Session) (context.Context, *copying) {
	ctx, stop := session.Listen(ctx)
	return ctx, &copying{s: s, ctx: ctx, stop: stop, live: s.Live(), last: s.Now(), done: -1}
}

func (c *copying) update(done, total int) {
	every := copyingEvery
	if c.live {
		every = hold.LiveEvery / 4
	}
	end := c.done >= 0 && done == total // of what was long enough to be shown
	begins := c.live && c.done < 0
	if c.s.Quiet || done == c.done || c.s.Now().Sub(c.last) < every && !end && !begins {
		return
	}
	c.last, c.done = c.s.Now(), done
	if !c.live {
		c.s.Note("%d of %s copied.", done, term.Plural(total, "record"))
		return
	}
	term.Redraw(c.s.Stderr, fmt.Sprintf("%s %d of %s", term.Bar(done, total), done, term.Plural(total, "record")))
}

// end clears the bar and returns what ended the copy.
func (c *copying) end(err error) error {
	if c.live && c.done >= 0 {
		term.Erase(c.s.Stderr)
	}
	err = session.Interrupted(c.ctx, err)
	c.stop()
	return err
}
