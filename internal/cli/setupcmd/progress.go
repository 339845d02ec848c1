package setupcmd

import (
	"context"

	"github.com/tasklock/tasklock/internal/cli/session"
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

// copying is a copy that a signal can end. It shows people how far it has come.
type copying struct {
	*session.Progress
	ctx  context.Context
	stop func()
}

func startCopying(ctx context.Context, s *session.Session) (context.Context, *copying) {
	ctx, stop := session.Listen(ctx)
	return ctx, &copying{Progress: s.Progress("copied"), ctx: ctx, stop: stop}
}

// end clears the bar and returns what ended the copy.
func (c *copying) end(err error) error {
	c.End()
	err = session.Interrupted(c.ctx, err)
	c.stop()
	return err
}
