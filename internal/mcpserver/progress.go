package mcpserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tasklock/tasklock/internal/lease"
)

// progress tells a client that waits that it is not forgotten: some end a call
// in which nothing happens.
type progress struct {
	c    *call
	ctx  context.Context
	wait time.Duration
	stop chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex
	place int
}

const progressEvery = 5 * time.Second

func (c *call) progress(ctx context.Context, wait time.Duration) *progress {
	p := &progress{c: c, ctx: ctx, wait: wait, stop: make(chan struct{})}
	if wait > 0 && c.req.Params.GetProgressToken() != nil {
		p.done.Go(p.tell)
	}
	return p
}

func (p *progress) waiting(h lease.HeldError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.place = h.Position
}

func (p *progress) tell() {
	start := time.Now()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		p.mu.Lock()
		place := p.place
		p.mu.Unlock()
		message := "waiting"
		if place > 0 {
			message = fmt.Sprintf("waiting, place %d in the queue", place)
		}
		_ = p.c.req.Session.NotifyProgress(p.ctx, &mcp.ProgressNotificationParams{
			ProgressToken: p.c.req.Params.GetProgressToken(), Message: message,
			Progress: time.Since(start).Seconds(), Total: p.wait.Seconds(),
		})
		select {
		case <-tick.C:
		case <-p.stop:
			return
		}
	}
}

func (p *progress) end() {
	close(p.stop)
	p.done.Wait()
}
