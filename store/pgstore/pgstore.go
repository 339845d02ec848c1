// Package pgstore keeps records in a schema of a PostgreSQL database: the store
// for workers on many machines that share a server they already trust.
//
// # Guarantees
//
// A commit that returned is in the server's log, as durable as the server makes
// it, on a synchronous standby too; if a session has synchronous_commit off or
// local, we switch it on. We never ask the server to cancel anything, because that
// ends the wait for the standby. Others see a commit some milliseconds before that:
// what may not last yet is driver.Snapshot.Unsure. If a crash takes it back, its
// revision is never given out again. Commits are serialisable and their revisions
// follow the order in which they become visible: every commit first takes its turn,
// and checks its guards afterwards.
//
// A commit is one message and one answer: the commit, which ends its turn, and a
// durable statement, which waits for the log. Whatever goes wrong between the two
// leaves the outcome unknown. The server begins when it has the whole
// message, or the whole call of a procedure, and finishes even if the client is
// gone, so a broken connection never leaves the turn taken. Concurrent commits of one process go together, in two
// groups at once.
//
// Time is the server's clock_timestamp(), for the age of records and for now. Callers
// that guard everything may get records of the last half second from memory.
//
// # Limits
//
// All commits in one schema take turns, each for a fraction of a millisecond; use
// several schemas for unrelated work. A role that may neither change our sequence
// nor write logical messages keeps the turn while the server syncs its log. A
// step of the server's clock, or a promoted standby with another clock, makes
// leases longer or shorter by that much. Write.TTL is not used: records stay
// until deleted.
//
// Behind a pooler LISTEN does not work: waiters look once a second. Neither do
// named prepared statements, which are not used there.
//
// # Failure
//
// We wait for a server that restarts, ten seconds at most. A connection that
// is lost during a commit leaves its outcome unknown. A standby or a role that
// may not write is driver.ErrDenied, a session that keeps all others from
// committing driver.ErrNoTurn, a missing schema driver.ErrMissing, foreign tables
// and rows edited into something we do not write driver.ErrDamaged. When the
// server was restored from a backup or a standby was promoted, revisions continue
// far above all that may have been lost.
package pgstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasklock/tasklock/store/driver"
)

// Defaults of [Options].
const (
	DefaultPoll    = 5 * time.Second
	DefaultTimeout = 10 * time.Second
)

// silentTimeout is how long a server that gave no answer gets next time.
const silentTimeout = time.Second

// pooledPoll is how often a waiter looks without notifications.
const pooledPoll = time.Second

// Options are those of every store.
type Options = driver.OpenOptions

func init() { driver.Register(Open, Inspect, "postgres", "postgresql") }

// A Store is a schema in a database. It implements driver.Store.
type Store struct {
	cfg     *pgconn.Config
	names   names
	where   string // the place, for messages
	poll    time.Duration
	timeout time.Duration

	life  *driver.Life
	group *driver.Group
	pool  *pool
	hub   *hub

	readers *readers
	memory  memory

	anyVersion bool         // accept every version of the schema
	acked      atomic.Int64 // the last revision that the server acknowledged

	mu     sync.Mutex
	met    bool      // the server has answered once
	down   time.Time // since when it does not; zero if it does
	silent work      // the work that got no answer in time
	pooled bool      // a pooler stands between us and the server

	outdated bool // the schema is of an older version
	prepared bool // and this version can commit to it
}

// Open opens the store that a connection string names: a libpq URL, or keywords
// and values, with the parameter "schema" for a schema other than "tasklock".
// PGHOST and the like, the service file and the password file supply the rest.
func Open(ctx context.Context, url string, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	s, err := newStore(url, o)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx, o.Create); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func newStore(url string, o *Options) (*Store, error) {
	cfg, schema, err := parse(url)
	if err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, names: newNames(schema), where: place(cfg, schema),
		poll: o.Poll, timeout: o.Timeout, anyVersion: o.Upgrade, life: driver.NewLife(),
	}
	if s.timeout <= 0 {
		s.timeout = DefaultTimeout
	}
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = s.timeout
	}
	s.group = driver.NewGroups(s.apply, commitsAtOnce)
	s.pool = newPool(s)
	s.hub = newHub(s)
	s.readers = &readers{s: s}
	return s, nil
}

// begin makes the first connection, and the schema if it may.
func (s *Store) begin(ctx context.Context, create bool) error {
	c, err := s.first(ctx)
	if create && errors.Is(err, driver.ErrMissing) {
		if err = s.create(ctx, false); err == nil {
			c, err = s.first(ctx)
		}
	}
	if err != nil {
		return err
	}
	s.pool.put(c)
	return nil
}

func (s *Store) first(ctx context.Context) (*conn, error) {
	limited, stop := s.limited(ctx, reading)
	defer stop()
	c, err := s.pool.get(limited, false)
	return c, s.life.Ended(ctx, s.explain(err))
}

// Outdated reports whether the schema had an older version at the last
// connection.
func (s *Store) Outdated() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outdated
}

// Upgrade brings the schema up to date. Older versions of tasklock refuse it from
// then on.
func (s *Store) Upgrade(ctx context.Context) error { return s.create(ctx, true) }

// Close ends all waits, finishes running calls, and closes the connections.
func (s *Store) Close() error {
	done := s.life.End()
	defer done()
	s.hub.close()
	s.pool.close()
	return nil
}

// work is the purpose of a call. A server that answers questions may still keep
// commits waiting, for a standby that is away.
type work int

const (
	reading work = iota + 1
	writing
)

// limited returns a context that ends with ctx, with the store, and when the
// server has had long enough to answer: less while it is silent anyway.
func (s *Store) limited(ctx context.Context, what work) (context.Context, context.CancelFunc) {
	living, stop := s.life.Living(ctx)
	timeout := s.timeout
	s.mu.Lock()
	if s.silent != 0 && what >= s.silent {
		timeout = min(timeout, silentTimeout)
	}
	s.mu.Unlock()
	limited, cancel := context.WithTimeoutCause(living, timeout, errSilent)
	return limited, func() { s.answered(what, context.Cause(limited)); cancel(); stop() }
}

// errSilent: the server had enough time. A caller with less time proves nothing
// about the server.
var errSilent = errors.New("no answer in time")

// answered notes whether a call returned before its time was over.
func (s *Store) answered(what work, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case cause == nil && what >= s.silent:
		s.silent = 0
	case cause == errSilent && (s.silent == 0 || what < s.silent):
		s.silent = what
	}
}
