// Package mcpserver offers leases and tasks to coding agents as tools of the
// Model Context Protocol.
//
// # Guarantee
//
// A lock belongs to the handle that a tool returned, never to a connection or
// a session of the protocol: each is held by a child of its own of the server's
// owner, so that two calls exclude each other whoever makes them. The server
// renews what it holds while it lives and releases it when it ends;
// its death is proof that its leases are free. A task is completed with the
// token of its claim or not at all.
//
// # Limit
//
// Over HTTP a client may vanish with a handle: what it held stays until the
// maximum hold. A handle is 128 random bits and appears in no list, so that one
// client cannot guess another's. Anyone with the access key can use every tool. No
// tool breaks the lock of another owner.
//
// # Failure
//
// "Held by another" is a result, not an error. A call that is cancelled, or
// whose client is gone, leaves the queue and releases nothing else. The text of
// a task is the work that was asked for and appears as it is; other text of
// others appears only in the field untrusted_text: see result.go.
package mcpserver

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tasklock/tasklock/internal/holder"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store"
)

// Options of a server. Zero fields mean their defaults, except the store and
// the owner.
type Options struct {
	Store *store.Store
	Owner string // for whom it works; it holds as children of this one
	// Caller says whose call it is, by the ids that a client on a pipe sends with
	// it, if any: a harness may name the session in no other way, or only after it
	// has started the server. Nil: Owner's.
	Caller func(session, thread string) (owner, sessionID string)

	TTL, MaxHold time.Duration
	Session      string

	// Keys makes keys of path locks the same in every worktree. Nil: as they are.
	Keys func([]string) ([]string, error)
	// Note gets what concerns a person and no client. May be nil.
	Note func(text string)

	Version string
}

const (
	maxWait     = 45 * time.Second // clients give up on a call after 60
	maxHandles  = 1000
	keepEnded   = time.Hour       // how long a client can repeat the call that ended a lease
	keepTicket  = 6 * time.Minute // the queue forgets it before
	releaseTime = 5 * time.Second
)

// Server holds leases for its clients.
type Server struct {
	o     Options
	mark  string // of this process, behind the names of those for whom it holds
	tools *mcp.Server

	// private means that there is one client: the server may tell it again the
	// handles that it forgot.
	private bool

	ctx   context.Context // ends with the server
	stop  context.CancelFunc
	calls sync.WaitGroup

	holder holder.Holder

	mu      sync.Mutex
	closed  bool
	handles map[string]*handle
	owners  map[string]bool // all names under which something was taken
}

// New returns a server that nobody talks to yet.
func New(o Options) (*Server, error) {
	if o.Keys == nil {
		o.Keys = func(keys []string) ([]string, error) { return keys, nil }
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	s := &Server{o: o, mark: lease.ServerMark(), handles: map[string]*handle{}, owners: map[string]bool{}}
	if err := lease.CheckOwner(o.Owner + s.mark + "/" + lease.NewID()); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.tools = mcp.NewServer(&mcp.Implementation{Name: "tasklock", Version: o.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	s.addTools()
	return s, nil
}

// ServeStdio talks to the one client at the other end of two pipes, until it
// closes them or ctx ends.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	s.private = true
	to := &lineWriter{WriteCloser: out}
	from := &lines{Closer: in, in: bufio.NewReader(in), out: to, note: s.o.Note, end: s.stop}
	err := s.tools.Run(ctx, &mcp.IOTransport{Reader: from, Writer: to})
	if ctx.Err() != nil || errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Close ends the calls that still wait, and releases everything.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.calls.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := []error{s.holder.Close(ctx)}
	for owner := range s.owners { // places in queues, too
		_, err := lease.Release(ctx, s.o.Store, lease.ReleaseRequest{Owner: owner, All: true})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// caller is the name under which a call takes what it asks for, and the session.
func (s *Server) caller(c *call) (owner, session string) {
	owner, session = s.o.Owner, s.o.Session
	if s.private && s.o.Caller != nil {
		text := func(name string) string { v, _ := c.req.Params.Meta[name].(string); return v }
		owner, session = s.o.Caller(text("sessionId"), text("threadId"))
	}
	owner += s.mark
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[owner] = true
	return owner, session
}

// holds reports whether this server holds it.
func (s *Server) holds(owner string) bool { return strings.Contains(owner, s.mark+"/") }

// enter begins a call, unless the server is about to end. What it waits for
// ends with its client and with the server.
func (s *Server) enter(ctx context.Context) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errors.New("the server is ending")
	}
	s.calls.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	quit := context.AfterFunc(s.ctx, cancel)
	gone := context.AfterFunc(clientOf(ctx), cancel)
	return ctx, func() {
		quit()
		gone()
		cancel()
		s.calls.Done()
	}, nil
}

// A handle is what a client has in hands: a place in a queue first, then a
// lease, and in the end the memory of how it ended.
type handle struct {
	name    string // the secret that the client was given
	holder  string
	owner   string // for whom, and its session: of the call that made it
	session string
	keys    []string
	take    takeFunc
	section string // a claim of the next task: the section it was asked for in

	busy sync.Mutex // one call at a time

	// Written under busy and the server's mutex, read under either:
	lease *lease.Lease // nil while it waits
	task  string       // its id, if this is a claim
	text  string       // of the task
	ended *Result      // a repeated call gets the same answer
	used  time.Time
}

func newHandle(keys []string, take takeFunc) *handle {
	return &handle{name: rand.Text(), holder: lease.NewID(), keys: keys, take: take}
}

// keep remembers a handle that the client is about to get.
func (s *Server) keep(h *handle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.used = time.Now()
	if s.handles[h.name] != nil {
		return nil
	}
	for name, old := range s.handles {
		if age := time.Since(old.used); old.over() && age > keepEnded || old.lease == nil && age > keepTicket {
			delete(s.handles, name)
		}
	}
	if len(s.handles) >= maxHandles {
		return &lease.InvalidError{What: "leases", Rule: fmt.Sprintf("this server holds %d, at most that many: release some", maxHandles)}
	}
	s.handles[h.name] = h
	return nil
}

// noteGrant notes what an attempt got.
func (s *Server) noteGrant(h *handle, got taken) error {
	if err := s.keep(h); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.lease = got.lease
	if t := got.task; t != nil {
		h.task, h.keys = t.ID, []string{t.ID}
		h.text = textOf(*t)
	}
	return nil
}

// over reports whether nothing is held any more.
func (h *handle) over() bool {
	return h.ended != nil || h.lease != nil && errors.Is(h.lease.Err(), lease.ErrLost)
}

// find returns the handle of that name and keeps others off until done.
func (s *Server) find(name string) (h *handle, done func(), err error) {
	s.mu.Lock()
	h = s.handles[name]
	s.mu.Unlock()
	switch {
	case h == nil:
		return nil, nil, &handleError{"this server has no such lease or ticket; it may have ended with an earlier server"}
	case !h.busy.TryLock():
		return nil, nil, &handleError{"another call with this lease or ticket has not ended yet"}
	}
	return h, h.busy.Unlock, nil
}

// handleError is a handle that cannot be used. Its text is ours.
type handleError struct{ text string }

func (e *handleError) Error() string { return e.text }

func (e *handleError) Problem(problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.None, Code: "LEASE_NOT_FOUND", Ours: e.text}
}

type clientKey struct{}

// clientOf is the context of the request that a call came with: the protocol's
// own outlives a client that has gone.
func clientOf(ctx context.Context) context.Context {
	if c, ok := ctx.Value(clientKey{}).(context.Context); ok {
		return c
	}
	return ctx
}
