package pgstore

import (
	"context"
	"sync"
	"time"
)

// maxConns limits the connections of a process, without the listener's. Commits
// need commitsAtOnce, because they go together; the rest are for reading.
const maxConns = 4

// commitsAtOnce is how many groups of commits are under way at once: while the
// server syncs one, it decides the next.
const commitsAtOnce = 2

// restful is how long a connection may be idle and still be used for a commit
// without a test. A commit on a connection that the server closed long ago would
// have an unknown outcome for no reason.
const restful = time.Second

// farewell is how long Close waits for connections to end.
const farewell = 2 * time.Second

// A pool keeps the connections of a process.
type pool struct {
	s     *Store
	slots chan struct{}
	work  sync.WaitGroup // connections that are being closed

	mu   sync.Mutex
	idle []*conn // the last was used last
}

func newPool(s *Store) *pool { return &pool{s: s, slots: make(chan struct{}, maxConns)} }

// get returns a connection, for a commit one that still answers.
func (p *pool) get(ctx context.Context, commit bool) (*conn, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for c := p.rested(); c != nil; c = p.rested() {
		if !commit || time.Since(c.used) < restful || c.pg.Ping(ctx) == nil {
			return c, nil
		}
		p.drop(c)
	}
	c, err := p.s.connect(ctx)
	if err != nil {
		<-p.slots
		return nil, err
	}
	return c, nil
}

func (p *pool) rested() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle) - 1
	if n < 0 {
		return nil
	}
	c := p.idle[n]
	p.idle = p.idle[:n]
	return c
}

// put takes a connection back. It drops one that is closed, or in the middle of
// something.
func (p *pool) put(c *conn) {
	if c.spent || c.pg.IsClosed() || c.pg.TxStatus() != 'I' {
		p.drop(c)
	} else {
		c.rested, c.used = true, time.Now()
		p.mu.Lock()
		p.idle = append(p.idle, c)
		p.mu.Unlock()
	}
	<-p.slots
}

// drop closes a connection, and does not wait for a server that may be gone.
func (p *pool) drop(c *conn) {
	p.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if c.pg.IsClosed() { // pgconn would wait for the server's last messages
			_ = c.pg.Conn().Close()
		}
		_ = c.pg.Close(ctx)
		<-c.pg.CleanupDone()
	})
}

// close closes all idle connections; the store has made sure that none is in use.
// It does not wait for a server that does not answer.
func (p *pool) close() {
	for c := p.rested(); c != nil; c = p.rested() {
		p.drop(c)
	}
	gone := make(chan struct{})
	go func() {
		p.work.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(farewell):
	}
}
