package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// heartbeatStore makes every command a heartbeat of its caller. It reads the caller's
// leases along with the first thing that the command reads, so that it asks nothing
// again if no renewal is due.
type heartbeatStore struct {
	driver.Store
	url    string
	caller lease.Caller

	mu   sync.Mutex
	seen bool
	due  []string
}

// withHeartbeat wraps a store, unless the caller cannot hold anything: the name of this
// process is new.
func (s *Session) withHeartbeat(url string, d driver.Store) driver.Store {
	id := s.Identity()
	if s.DryRun || id.Source == identity.FromProcess || lease.CheckOwner(id.Owner) != nil {
		return d
	}
	s.opened.heartbeat = &heartbeatStore{Store: d, url: url, caller: callerOf(id)}
	return s.opened.heartbeat
}

func callerOf(id identity.Identity) lease.Caller {
	l := lease.Caller{Owner: id.Owner, Session: id.Session, Late: id.Agent}
	if id.PID > 0 {
		l.Process, _ = host.Find(id.PID)
	}
	return l
}

// Scheme is that of the wrapped store: how long leases and tickets last depends on it.
func (s *heartbeatStore) Scheme() string { return driver.Scheme(s.url) }

func (s *heartbeatStore) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	s.mu.Lock()
	first := !s.seen
	s.seen = true
	s.mu.Unlock()
	if !first {
		return s.Store.Read(ctx, q)
	}
	q.Ranges = append(slices.Clip(q.Ranges), s.caller.Range())
	snap, err := s.Store.Read(ctx, q)
	if err == nil {
		s.mu.Lock()
		s.due = s.caller.Due(snap)
		s.mu.Unlock()
	}
	return snap, err
}

// RenewDue renews what is due, when the command has done its work. It cannot
// fail the command.
func (s *Session) RenewDue() {
	h := s.opened.heartbeat
	if h == nil || len(h.due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = h.caller.Renew(ctx, s.NewStore(h.url, h.Store), h.due)
}

// lateStore is a store that does not exist yet. Its waiters look for it once a
// second.
type lateStore struct {
	s     *Session
	url   string
	why   string // it is this one
	o     *driver.OpenOptions
	write bool

	mu   sync.Mutex
	real driver.Store
}

// Late is a store that is made with the first commit, if the command may write.
func (s *Session) Late(url, why string, o *driver.OpenOptions, write bool) driver.Store {
	return &lateStore{s: s, url: url, why: why, o: o, write: write}
}

// get opens the store if it exists by now, or makes it.
func (l *lateStore) get(ctx context.Context, create bool) (driver.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.real != nil {
		return l.real, nil
	}
	if cfg := l.s.settings.cfg; create && l.url == cfg.Place.URL() { // our folder has its own .gitignore
		if err := cfg.MakeFolder(); err != nil {
			return nil, err
		}
	}
	o := *l.o
	o.Create = create
	d, err := l.s.OpenStore(ctx, l.url, &o)
	if err != nil {
		return nil, err
	}
	l.real = d
	if create {
		l.s.Note("Note: made the store %s: there was none (%s).", config.WithoutPassword(l.url), l.why)
	}
	return d, nil
}

func (l *lateStore) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	d, err := l.get(ctx, false)
	switch {
	case errors.Is(err, driver.ErrMissing):
		return driver.Snapshot{Now: l.s.Now()}, nil
	case err != nil:
		return driver.Snapshot{}, err
	}
	return d.Read(ctx, q)
}

func (l *lateStore) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	d, err := l.get(ctx, l.write)
	if err != nil {
		return 0, local.Full(err)
	}
	return d.Commit(ctx, b)
}

func (l *lateStore) Wait(ctx context.Context, guards []driver.Guard) error {
	d, err := l.get(ctx, false)
	if err == nil {
		return d.Wait(ctx, guards)
	}
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lateStore) Scheme() string { return driver.Scheme(l.url) }

func (l *lateStore) Close() error { return nil }
