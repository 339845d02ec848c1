// Package server serves the operations of tasklock over HTTP, for workers that must
// not have the password of a store, and for languages without a client.
//
// The server has no rules of its own: an operation calls the function that the
// command calls, and answers with the same result or the same problem. It adds who
// may ask for what (package access) and the edge (package edge).
//
// # What it guarantees
//
// A caller acts below the owner of its access key, and nowhere else. Each request that
// takes something holds it under a name of its own, "<owner>/<Idempotency-Key>", so
// clients that share a key exclude each other. A repeated request has one effect.
//
// # Limit
//
// A connection proves nothing: a lease lasts by its ttl and its renewals, and no lease
// or ticket names a process. So a server keeps nothing that another one on the same
// store needs.
//
// # What happens on failure
//
// A server that ends answers those who wait that they are queued. The same request to
// another server goes on.
package server

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/edge"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Options of a server. Every zero field means its default.
type Options struct {
	Hosts  []string // names of this server besides localhost
	Prefix string   // of all paths, as a proxy in front of it sends them: "/tasklock"
	Rate   float64  // requests a second of one access key; the default is 2,000
	Calls  int      // requests of one access key at a time, those that wait too; the default is 256

	Peers driver.Store // the store itself, for keys of role peer; nil: not for them

	Note func(text string) // to the log of the server
}

const (
	maxCalls  = 4096 // at a time, of all keys
	maxBody   = 1 << 20
	drainTime = 5 * time.Second
	staleTime = 10 * time.Second // without a look at the keys it is not ready
)

// Server serves one store.
type Server struct {
	st     *store.Store
	opt    Options
	book   *access.Book
	hosts  edge.Hosts
	origin *http.CrossOriginProtection
	routes map[string]map[string]operation // path → method →

	limits  limits
	streams streams
	hub     hub

	waits context.Context // ends when waits must
	end   context.CancelCauseFunc
}

// errStopping ends the waits of a server that stops.
var errStopping = errors.New("the server stops")

// New returns a server that knows no keys yet: see [Server.Follow].
func New(st *store.Store, o Options) *Server {
	if o.Rate == 0 {
		o.Rate = 2000
	}
	if o.Calls == 0 {
		o.Calls = 256
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	s := &Server{
		st: st, opt: o, book: access.NewBook(st), hosts: edge.NewHosts(o.Hosts...), origin: http.NewCrossOriginProtection(),
		limits: limits{of: map[string]*limit{}},
	}
	s.hub.st = st
	s.waits, s.end = context.WithCancelCause(context.Background())
	s.routes = s.table()
	return s
}

// Follow keeps the access keys in memory until ctx ends. The first look is done when
// it returns.
func (s *Server) Follow(ctx context.Context) error {
	if err := s.book.Look(ctx); err != nil {
		return err
	}
	go s.book.Follow(ctx, func(err error) { s.opt.Note("cannot read the access keys: " + err.Error()) })
	return nil
}

// Keys is how many access keys are valid.
func (s *Server) Keys() int { return s.book.Len() }

// Serve serves until ctx ends. Then it is not ready, ends all waits, and gives the
// requests that are under way some seconds.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := edge.Server(s.Handler(), maxWait)
	srv.ErrorLog = log.New(notes(s.opt.Note), "", 0)
	return edge.Serve(ctx, srv, l, s.Stop, drainTime)
}

// notes are lines of a log.
type notes func(string)

func (n notes) Write(line []byte) (int, error) {
	n(strings.TrimSpace(string(line)))
	return len(line), nil
}

// Stop ends all waits, now and from now on. The server is not ready any more.
func (s *Server) Stop() { s.end(errStopping) }

// Handler is the server behind its edge.
func (s *Server) Handler() http.Handler {
	return untouched(edge.Limited(maxCalls, http.HandlerFunc(s.serve)))
}

// serve decides who asks, before it looks what for.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.health(w, r, r.URL.Path) {
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, s.opt.Prefix)
	pass := s.book.Find(r.Context(), edge.Bearer(r))
	switch {
	case r.Host == "":
		edge.Refuse(w, http.StatusBadRequest, "INVALID_ARGUMENTS", "a request names its Host")
	case pass == nil && !s.hosts.Know(r): // a page under DNS rebinding has no key
		edge.RefuseHost(w)
	case s.origin.Check(r) != nil:
		edge.Refuse(w, http.StatusForbidden, "CROSS_ORIGIN", "a page of another site must not call this server")
	case pass == nil:
		edge.Unauthorized(w, "needs a valid access key: Authorization: Bearer tl_…; tasklock keys add makes one")
	case !ok || r.URL.RawPath != "" || s.routes[path] == nil:
		edge.Refuse(w, http.StatusNotFound, "NOT_FOUND", "there is no such path")
	default:
		s.route(w, r, path, pass)
	}
}

// route calls the operation of a path, within the limits of the key.
func (s *Server) route(w http.ResponseWriter, r *http.Request, path string, pass *access.Pass) {
	o, ok := s.routes[path][r.Method]
	switch {
	case !ok:
		edge.Method(w, methods(s.routes[path])...)
		return
	case !pass.Role.Allows(o.role):
		edge.Refuse(w, http.StatusForbidden, "PERMISSION_DENIED", "needs an access key of role "+string(o.role)+", this one is of role "+string(pass.Role))
		return
	}
	leave, ok := s.limits.enter(pass, s.opt)
	if !ok {
		edge.Busy(w, http.StatusTooManyRequests, "too many requests with this access key")
		return
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(pass.Context(), func() { cancel(access.ErrRevoked) })()
	if o.waits {
		defer context.AfterFunc(s.waits, func() { cancel(errStopping) })()
	}
	o.serve(s, w, r.WithContext(ctx), Caller{Key: pass.Key})
}

// limits are those of each key.
type limits struct {
	mu sync.Mutex
	of map[string]*limit
}

type limit struct {
	rate edge.Bucket
	free chan struct{}
}

// enter reports whether a key may make another request now. A peer has no limit: it is
// trusted as a client of the database is, and each of its waiters is a request.
func (l *limits) enter(p *access.Pass, o Options) (leave func(), ok bool) {
	if p.Role == access.Peer {
		return func() {}, true
	}
	l.mu.Lock()
	one := l.of[p.ID]
	if one == nil {
		one = &limit{free: make(chan struct{}, o.Calls)}
		l.of[p.ID] = one
		context.AfterFunc(p.Context(), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.of, p.ID)
		})
	}
	l.mu.Unlock()
	if !one.rate.Take(o.Rate) {
		return nil, false
	}
	select {
	case one.free <- struct{}{}:
		return func() { <-one.free }, true
	default:
		return nil, false
	}
}
