package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
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
