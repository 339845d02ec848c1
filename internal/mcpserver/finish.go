package mcpserver

import (
	"context"
	"errors"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
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
		_, err = lease.Release(ctx, s.o.Store, lease.ReleaseRequest{Owner: h.owner + "/" + h.holder, All: true})
	} else {
		err = h.lease.Release(ctx)
	}
	if err != nil && !errors.Is(err, lease.ErrLost) {
		return Result{}, err
	}
	r := Result{State: released}
	if err != nil {
		r = s.failure(err)
	}
	s.noteEnd(h, r)
	return r, nil
}

var verbs = map[string]task.Verb{
	"": task.Complete, completed: task.Complete, "failed": task.Fail, "blocked": task.Block, "review": task.Submit,
}

// complete reports with the token of the claim, and goes on holding it if that
// did not succeed.
func (s *Server) complete(ctx context.Context, c *call, in completeArgs) (Result, error) {
	verb, ok := verbs[in.Outcome]
	if !ok {
		return Result{}, &lease.InvalidError{What: "outcome", Rule: "must be completed, failed, blocked or review"}
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
		return Result{}, &handleError{"this is not a claim: complete needs the lease that claim returned"}
	}
	d := task.StatusRequest{Verb: verb, Tasks: []string{h.task}, Owner: h.lease.Owner(), Token: grantedResult(h).Token}
	if in.Summary != "" || len(in.Commits)+len(in.Tests) > 0 {
		d.Result = &task.Result{Summary: in.Summary, Commits: in.Commits, Tests: in.Tests}
	}
	if verb == task.Block {
		d.Reason, d.Result = in.Summary, nil
	}
	var out task.ChangeResult
	r := Result{Next: "call claim for the next task"}
	if in.Next {
		out, r, err = s.doNext(ctx, c, h, d)
	} else {
		out, err = task.ChangeStatus(ctx, s.o.Store, d)
	}
	switch {
	case errors.Is(err, lease.ErrLost):
		r = s.failure(err)
	case err != nil:
		return Result{}, err
	default:
		r.Task = plainName(out.Tasks[0].ID)
		if r.State = string(out.Tasks[0].Status); verb == task.Complete {
			r.State = completed
		}
	}
	_ = h.lease.ReleaseWith(ctx, func(ctx context.Context) error { // what is left: keys around the task
		_, err := lease.Release(ctx, s.o.Store, lease.ReleaseRequest{Owner: h.lease.Owner(), All: true})
		return err
	})
	s.noteEnd(h, r)
	return r, nil
}

// doNext completes the task of a handle and claims the next one, both or neither.
func (s *Server) doNext(ctx context.Context, c *call, h *handle, d task.StatusRequest) (task.ChangeResult, Result, error) {
	n := newHandle(nil, nil)
	n.section = h.section
	var out task.ChangeResult
	var next *task.NextResult
	var refused error
	err := s.holder.Take(ctx, func(ctx context.Context) (l *lease.Lease, _ error) {
		out, next, l, refused = task.ChangeAndHoldNext(ctx, s.o.Store, d, task.NextRequest{Section: n.section, WithSection: true, Acquire: s.request(c, n)})
		return l, refused
	}, func(l *lease.Lease) error { return s.noteGrant(n, taken{l, &next.Task}) })
	switch {
	case refused != nil || next == nil:
		return out, Result{Next: "nothing is ready: call claim with wait_seconds 45, or stop"}, refused
	case err != nil: // nobody is there to receive it; the completion stands
		return out, Result{Next: "call claim for the next task"}, nil
	}
	claimed := grantedResult(n)
	return out, Result{Claimed: &claimed}, nil
}

// noteEnd remembers how a handle ended.
func (s *Server) noteEnd(h *handle, r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.ended, h.used = &r, time.Now()
}
