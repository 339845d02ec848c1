package server

import (
	"context"
	"time"

	"github.com/tasklock/tasklock/internal/access"
)

func (s *Server) listKeys(ctx context.Context, _ Caller, _ noInput) (access.ListResult, error) {
	return access.List(ctx, s.st)
}

type addKeyInput struct {
	Role    access.Role `json:"role"`
	Owner   string      `json:"owner"`
	Name    string      `json:"name"`
	Expires Duration    `json:"expires"` // from now
}

// addKey makes a child of the caller's key.
func (s *Server) addKey(ctx context.Context, c Caller, in addKeyInput) (access.AddResult, error) {
	return access.Add(ctx, s.st, access.AddRequest{
		Role: in.Role, Owner: in.Owner, Name: in.Name, Expires: time.Duration(in.Expires), By: c.Owner, Parent: c.ID,
	})
}

type revokeInput struct {
	ID []string `json:"id"`
}

// revokeKey ends keys, at this server at once. A key that another one made revokes only
// those that it made itself.
func (s *Server) revokeKey(ctx context.Context, c Caller, in revokeInput) (access.RevokeResult, error) {
	r := access.RevokeRequest{IDs: in.ID, By: c.Owner}
	if c.Parent != "" {
		r.Parent = c.ID
	}
	out, err := access.Revoke(ctx, s.st, r)
	if err == nil {
		_ = s.book.Look(context.WithoutCancel(ctx)) // else within a second
	}
	return out, err
}
