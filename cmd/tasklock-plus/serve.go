package main

import (
	"context"
	"crypto/tls"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/server"
)

// serveHTTP serves until ctx ends, and then lets what is under way come to its end.
func serveHTTP(ctx context.Context, r session.ServeRequest) error {
	s := server.New(r.Store, server.Options{Peers: r.Peers, Hosts: r.Hosts, Prefix: r.Prefix, Note: r.Note})
	l := r.Listener
	if r.TLSCert != "" {
		config, err := server.TLS(r.TLSCert, r.TLSKey, r.Note)
		if err != nil {
			_ = l.Close()
			return err
		}
		l = tls.NewListener(l, config)
	}
	follow, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	if err := s.Follow(follow); err != nil {
		_ = l.Close()
		return err
	}
	return s.Serve(ctx, l)
}
