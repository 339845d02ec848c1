package etcdstore

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A pool hands out leases of etcd for the signs of records.
//
// A lease is requested with a little more time than the record's ttl, and while
// the rest suffices it serves all further records with that ttl: so a round trip
// to grant one is needed now and then, not with each commit. It is never renewed.
// A heartbeat writes its record again, on a lease with a whole ttl left, so a
// refused heartbeat has prolonged nothing. An unused lease costs the server a few
// bytes until it ends.
type pool struct {
	turn chan struct{} // held while one is asked for

	mu      sync.Mutex
	current map[time.Duration]lease // by the ttl of the records
}

// A lease is one of etcd's, requested at that moment.
type lease struct {
	id    clientv3.LeaseID
	asked moment
	spare time.Duration // how much later a record may still use it
}

func newPool() pool { return pool{turn: make(chan struct{}, 1), current: map[time.Duration]lease{}} }

// spare is how much longer than the ttl a lease lasts, before rounding up to
// etcd's whole seconds. A dead holder's keys are free that much later.
func spare(ttl time.Duration) time.Duration { return min(ttl/10, 9*time.Second) }

// lease returns a lease that lasts for ttl from now on, at least.
func (s *Store) lease(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	if l, ok := s.leases.usable(ttl); ok {
		return l, nil
	}
	select {
	case s.leases.turn <- struct{}{}:
		defer func() { <-s.leases.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if l, ok := s.leases.usable(ttl); ok { // another call was faster
		return l, nil
	}
	asked := clocks()
	resp, err := s.client.Grant(ctx, int64(math.Ceil((ttl + spare(ttl)).Seconds())))
	if err != nil {
		return 0, s.failed("grant a lease", err)
	}
	l := lease{id: resp.ID, asked: asked, spare: time.Duration(resp.TTL)*time.Second - ttl}
	if l.spare < 0 {
		return 0, fmt.Errorf("etcd grants a lease of %d s for a ttl of %v", resp.TTL, ttl)
	}
	s.leases.keep(ttl, l)
	return l.id, nil
}

func (p *pool) usable(ttl time.Duration) (clientv3.LeaseID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.current[ttl]
	return l.id, ok && l.asked.passed() <= l.spare
}

// keep makes l the lease for its ttl, and forgets those that no longer serve:
// there may be many ttls.
func (p *pool) keep(ttl time.Duration, l lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ttl, old := range p.current {
		if old.asked.passed() > old.spare {
			delete(p.current, ttl)
		}
	}
	p.current[ttl] = l
}

// drop forgets leases that the server no longer knows.
func (p *pool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.current)
}

// A moment is a reading of both clocks: the steady one stands still while the
// machine sleeps.
type moment struct{ steady, wall time.Time }

func clocks() moment {
	t := time.Now()
	return moment{steady: t, wall: t.Round(0)}
}

// passed is the time since then by the clock that has moved more.
func (m moment) passed() time.Duration {
	now := clocks()
	return max(now.steady.Sub(m.steady), now.wall.Sub(m.wall))
}
