package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/task"
)

func (s *Server) release(ctx context.Context, _ *call, in releaseArgs) (Result, error) {
	h, done, err := s.find(in.Lease)
	if err != nil {
		return Result{}, err
	}
	defer done()
	if h.ended != nil {
		return *h.ended, nil
	}
	if h.lease == nil { // a place in the queue
		_, err = lock.Release(ctx, s.o.Store, lock.ReleaseRequest{Owner: s.owner + "/" + h.holder, All: true})
	} else {
		err = h.lease.Release(ctx)
	}
	if err != nil && !errors.Is(err, lock.ErrLost) {
		return Result{}, err
	}
	r := Result{State: released}
	if err != nil {
		r = s.failure(err)
	}
	s.end(h, r)
	return r, nil
}

var verbs = map[string]task.Verb{
	"": task.Complete, completed: task.Complete, "failed": task.Fail, "blocked": task.Block, "review": task.Submit,
}

// complete reports with the token of the claim, and goes on holding it if that
// did not succeed.
func (s *Server) complete(ctx context.Context, _ *call, in completeArgs) (Result, error) {
	verb, ok := verbs[in.Outcome]
	if !ok {
		return Result{}, &lock.InvalidError{What: "outcome", Rule: "must be completed, failed, blocked or review"}
	}
	h, done, err := s.find(in.Lease)
	if err != nil {
		return Result{}, err
	}
	defer done()
	switch {
	case h.ended != nil:
		return *h.ended, nil
	case h.task == "" || h.lease == nil:
		return Result{}, &handleError{"this is no claim: complete goes with the lease that claim returned"}
	}
	d := task.DoRequest{Verb: verb, Tasks: []string{h.task}, Owner: h.lease.Owner(), Token: granted(h).Token}
	if in.Summary != "" || len(in.Commits)+len(in.Tests) > 0 {
		d.Result = &task.Result{Summary: in.Summary, Commits: in.Commits, Tests: in.Tests}
	}
	if verb == task.Block {
		d.Reason, d.Result = in.Summary, nil
	}
	out, err := task.Do(ctx, s.o.Store, d)
	if err != nil && !errors.Is(err, lock.ErrLost) {
		return Result{}, err
	}
	r := Result{State: completed, Next: "call claim for the next task"}
	if err != nil {
		r = s.failure(err)
	} else {
		r.Task, _ = name(out.Tasks[0].ID)
		if r.State = string(out.Tasks[0].Status); verb == task.Complete {
			r.State = completed
		}
	}
	_ = h.lease.ReleaseWith(ctx, func(ctx context.Context) error { // what is left: keys around the task
		_, err := lock.Release(ctx, s.o.Store, lock.ReleaseRequest{Owner: h.lease.Owner(), All: true})
		return err
	})
	s.end(h, r)
	return r, nil
}

// end remembers how a handle ended.
func (s *Server) end(h *handle, r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.ended, h.used = &r, time.Now()
}

// maxLines is how many locks a list has; the rest is counted.
const maxLines = 20

func (s *Server) status(ctx context.Context, _ *call, in statusArgs) (Result, error) {
	if in.Key != "" {
		return s.statusOf(ctx, in.Key)
	}
	all, err := lock.List(ctx, s.o.Store, lock.ListRequest{})
	if err != nil {
		return Result{}, err
	}
	r := Result{State: free}
	tokens := map[string]int64{}
	for _, l := range all.Locks {
		tokens[l.Key] = l.Token
		switch {
		case l.State != lock.Held || strings.HasPrefix(l.Owner, s.owner+"/"):
			continue
		case len(r.Others) == maxLines:
			r.More++
			continue
		}
		line := Line{Token: l.Token, ExpiresInSeconds: seconds(time.Until(l.ExpiresAt))}
		line.Key, _ = name(l.Key)
		line.Holder, _ = name(l.Owner)
		r.Others = append(r.Others, line)
	}
	r.Mine = s.mine(tokens)
	if len(r.Mine)+len(r.Others) > 0 {
		r.State = held
	}
	return r, nil
}

// mine lists what this server holds. Its clients are told their handles only
// where they are one.
func (s *Server) mine(tokens map[string]int64) (lines []Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.handles {
		if h.ended != nil {
			continue
		}
		line := Line{State: queued}
		if s.private {
			line.Ticket = h.name
		}
		keys := h.keys
		if h.lease != nil {
			line = Line{State: acquired, Lease: line.Ticket, Token: h.lease.Token()}
			keys = nil
			for _, k := range h.lease.Grant().Keys {
				keys = append(keys, k.Key)
				if tokens[k.Key] != k.Token || errors.Is(h.lease.Err(), lock.ErrLost) {
					line.State = lost
				}
			}
		}
		for _, k := range keys {
			line.Key, _ = name(k)
			lines = append(lines, line)
		}
	}
	return lines
}

func (s *Server) statusOf(ctx context.Context, key string) (Result, error) {
	keys, err := s.o.Keys([]string{key})
	if err != nil {
		return Result{}, err
	}
	c, err := lock.Check(ctx, s.o.Store, lock.CheckRequest{Key: keys[0]})
	if err != nil {
		return Result{}, err
	}
	if !c.Locked {
		r := Result{State: free}
		r.Key, _ = name(c.Key)
		return r, nil
	}
	l := c.Lock
	r := s.inTheWay(&lock.HeldError{Key: l.Key, Owner: l.Owner, Until: l.ExpiresAt, Reason: l.Reason, Ahead: l.Waiters})
	r.Token, r.Next = l.Token, ""
	return r, nil
}

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

func (p *progress) waiting(h lock.HeldError) {
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
