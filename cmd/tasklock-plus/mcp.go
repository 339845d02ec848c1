package main

import (
	"context"
	"errors"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/mcpserver"
)

// serveMCP serves until ctx ends or the client is gone, and then releases all
// that it holds.
func serveMCP(ctx context.Context, r session.MCPRequest) error {
	s, err := mcpserver.New(mcpserver.Options{
		Store: r.Store, Owner: r.Owner, TTL: r.TTL, MaxHold: r.MaxHold,
		Session: r.Session, Caller: r.Caller, Keys: r.Keys, Note: r.Note, Version: r.Version,
	})
	if err != nil {
		return err
	}
	if r.Listener != nil {
		err = s.ServeHTTP(ctx, r.Listener, mcpserver.HTTPOptions{AccessKey: r.AccessKey, Hosts: r.Hosts})
	} else {
		err = s.ServeStdio(ctx, r.Stdin, r.Stdout)
	}
	return errors.Join(err, s.Close())
}
