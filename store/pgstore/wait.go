package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasklock/tasklock/store/driver"
)

// Intervals of the listener.
const (
	lookRound = 5 * time.Second  // between two looks at whether anybody still waits
	pingAfter = 30 * time.Second // without a word from the server
)

// Wait implements driver.Store. It subscribes first and looks afterwards, and
// looks again now and then in any case.
func (s *Store) Wait(ctx context.Context, guards []driver.Guard) error {
	done, err := s.life.Use()
	if err != nil {
		return err
	}
	defer done()
	living, stop := s.life.Living(ctx)
	defer stop()
	sub := s.hub.subscribe(guards)
	defer s.hub.leave(sub)
	for {
		if err := s.hub.ready(living); err != nil {
			return s.life.Ended(ctx, err)
		}
		holds, _, err := s.holding(living, guards)
		if err != nil {
			return s.life.Ended(ctx, err)
		}
		if !holds {
			return nil
		}
		timer := time.NewTimer(s.rest())
		select {
		case <-sub.woken:
			timer.Stop()
			return nil
		case <-timer.C:
		case <-living.Done():
			timer.Stop()
			return s.life.Ended(ctx, living.Err())
		}
	}
}

// rest is how long a waiter waits before it looks: not all at once, and never
// longer than promised.
func (s *Store) rest() time.Duration {
	d := s.poll
	if d <= 0 {
		d = DefaultPoll
	}
	if !s.hub.hears() {
		d = min(d, pooledPoll)
	}
	return d*3/4 + rand.N(d/4+1)
}

// A hub listens for all waiters of a process, through one connection that
// exists while somebody waits. It shares the advisory lock that shows commits
// that somebody listens.
type hub struct {
	s    *Store
	work sync.WaitGroup

	mu      sync.Mutex
	subs    map[string]map[*subscription]bool // by key and kind
	count   int
	running bool
	tried   chan struct{} // closed when the listener listens, or cannot
	hearing bool
	left    time.Time // when the last waiter left
}

type subscription struct {
	keys  []string
	woken chan struct{} // has room for one
}

func newHub(s *Store) *hub {
	return &hub{s: s, subs: map[string]map[*subscription]bool{}, tried: make(chan struct{})}
}

func (h *hub) subscribe(guards []driver.Guard) *subscription {
	sub := &subscription{woken: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range guards {
		sub.keys = append(sub.keys, g.Key)
		if h.subs[g.Key] == nil {
			h.subs[g.Key] = map[*subscription]bool{}
		}
		h.subs[g.Key][sub] = true
	}
	h.count++
	if !h.running {
		h.running = true
		h.work.Go(h.listen)
	}
	return sub
}

func (h *hub) leave(sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range sub.keys {
		delete(h.subs[k], sub)
		if len(h.subs[k]) == 0 {
			delete(h.subs, k)
		}
	}
	h.count--
	h.left = time.Now()
}

// ready waits until the listener listens, or has found that it cannot.
func (h *hub) ready(ctx context.Context) error {
	h.mu.Lock()
	tried := h.tried
	h.mu.Unlock()
	select {
	case <-tried:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hub) hears() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hearing
}

// now notes whether the listener listens. It wakes earlier waiters, because
// nobody heard what happened before.
func (h *hub) now(hearing bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hearing = hearing
	select {
	case <-h.tried:
		h.wakeAll()
	default:
		close(h.tried)
	}
}

func (h *hub) wakeAll() {
	for _, subs := range h.subs {
		wake(subs)
	}
}

func wake(subs map[*subscription]bool) {
	for sub := range subs {
		select {
		case sub.woken <- struct{}{}:
		default:
		}
	}
}

// got wakes waiters for one of the keys, or all if the payload has none.
func (h *hub) got(payload string) {
	var keys []string
	known := json.Unmarshal([]byte(payload), &keys) == nil
	h.mu.Lock()
	defer h.mu.Unlock()
	if !known {
		h.wakeAll()
	}
	for _, k := range keys {
		wake(h.subs[k])
		wake(h.subs[driver.Kind(k)])
	}
}

// listen is the listener, while anybody waits.
func (h *hub) listen() {
	ctx := h.s.life.Context()
	for n := 0; ; n++ {
		c, err := h.connect(ctx)
		if err == nil {
			n = 0
			h.now(true)
			err = h.hear(ctx, c)
			h.s.pool.drop(c)
		}
		if h.over(errors.Is(err, errQuiet) || h.quiet()) {
			return
		}
		h.now(false)
		if errors.Is(err, errPooler) {
			<-ctx.Done()
			continue
		}
		_ = pause(ctx, 100*time.Millisecond, n)
	}
}

var (
	errQuiet  = errors.New("nobody waits")
	errPooler = errors.New("behind a pooler nothing is heard")
)

// over ends the listener with the store, and when nobody waits any more. The
// next subscriber starts another.
func (h *hub) over(quiet bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.s.life.Over() || quiet && h.count == 0 {
		h.running, h.hearing = false, false
		h.tried = make(chan struct{})
		return true
	}
	return false
}

// connect listens first and then takes the lock: a commit that finds the lock
// taken is heard, and any other ends before we have it. A session that keeps the
// lock from us only makes waiters look more often.
func (h *hub) connect(ctx context.Context) (*conn, error) {
	limited, cancel := context.WithTimeout(ctx, h.s.timeout)
	defer cancel()
	cfg := h.s.cfg.Copy()
	cfg.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { h.got(n.Payload) }
	c, err := newConn(limited, cfg)
	if err != nil {
		return nil, err
	}
	rows, err := c.exec(limited, "SELECT pg_catalog.pg_backend_pid()") // less than a greeting: somebody waits for us
	if err == nil && (len(rows) != 1 || number(rows[0][0]) != int64(c.pg.PID())) {
		err = errPooler
	}
	for _, sql := range []string{"LISTEN " + h.s.names.quoted, "SET lock_timeout = '1s'", fmt.Sprintf("SELECT pg_catalog.pg_advisory_lock_shared(%d)", h.s.names.listen)} {
		if err == nil {
			_, err = c.exec(limited, sql)
		}
	}
	if err != nil {
		h.s.pool.drop(c)
		return nil, err
	}
	return c, nil
}

// hear receives until the connection breaks or nobody waits any more.
func (h *hub) hear(ctx context.Context, c *conn) error {
	heard := time.Now()
	for {
		limited, cancel := context.WithTimeout(ctx, lookRound)
		err := c.pg.WaitForNotification(limited)
		cancel()
		switch {
		case err == nil:
			heard = time.Now()
			continue
		case c.pg.IsClosed() || ctx.Err() != nil:
			return err
		case h.quiet():
			return errQuiet
		case time.Since(heard) > pingAfter:
			limited, cancel := context.WithTimeout(ctx, h.s.timeout)
			err := c.pg.Ping(limited)
			cancel()
			if err != nil {
				return err
			}
			heard = time.Now()
		}
	}
}

func (h *hub) quiet() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count == 0 && time.Since(h.left) > lookRound
}

// close waits for the listener; the store's life has ended.
func (h *hub) close() { h.work.Wait() }
