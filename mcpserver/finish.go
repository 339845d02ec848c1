package mcpserver

import (
	"context"
	"errors"
	"time"

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
		_, err = lock.Release(ctx, s.o.Store, lock.ReleaseRequest{Owner: h.owner + "/" + h.holder, All: true})
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
