package mcpserver

import (
	"context"
	"errors"

	"github.com/tasklock/tasklock/internal/lease"
)

// maxLines is how many locks a list has; the rest is counted.
const maxLines = 20

func (s *Server) status(ctx context.Context, _ *call, in statusArgs) (Result, error) {
	if in.Key != "" {
		return s.statusOf(ctx, in.Key)
	}
	all, err := lease.List(ctx, s.o.Store, lease.ListRequest{})
	if err != nil {
		return Result{}, err
	}
	r := Result{State: free}
	tokens := map[string]int64{}
	for _, l := range all.Locks {
		tokens[l.Key] = l.Token
		switch {
		case l.State != lease.Held || s.holds(l.Owner):
			continue
		case len(r.Others) == maxLines:
			r.More++
			continue
		}
		r.Others = append(r.Others, Result{
			Key: plainName(l.Key), Holder: plainName(l.Owner), Token: l.Token, ExpiresInSeconds: secondsUntil(l.ExpiresAt.Time),
		})
	}
	r.Mine = s.mine(tokens)
	if len(r.Mine)+len(r.Others) > 0 {
		r.State = held
	}
	return r, nil
}

// mine lists what this server holds, with the handles if it has only one
// client.
func (s *Server) mine(tokens map[string]int64) (lines []Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.handles {
		if h.ended != nil {
			continue
		}
		line := Result{State: queued}
		if s.private {
			line.Ticket = h.name
		}
		keys := h.keys
		if h.lease != nil {
			line = Result{State: acquired, Lease: line.Ticket, Token: h.lease.Token()}
			keys = nil
			for _, k := range h.lease.Grant().Keys {
				keys = append(keys, k.Key)
				if tokens[k.Key] != k.Token || errors.Is(h.lease.Err(), lease.ErrLost) {
					line.State = lost
				}
			}
		}
		for _, k := range keys {
			line.Key = plainName(k)
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
	c, err := lease.Check(ctx, s.o.Store, lease.CheckRequest{Key: keys[0]})
	if err != nil {
		return Result{}, err
	}
	if !c.Locked {
		r := Result{State: free, Key: plainName(c.Key)}
		r.addPool(c.Pool)
		return r, nil
	}
	if c.Pool != nil {
		r := s.heldResult(&lease.HeldError{Info: lease.Info{Key: c.Key}, Asked: c.Key, Pool: c.Pool, Ahead: c.Pool.Waiters})
		r.Next = ""
		return r, nil
	}
	l := c.Lock
	r := s.heldResult(&lease.HeldError{Info: *l, Ahead: l.Waiters})
	r.Token, r.Next = l.Token, ""
	return r, nil
}
