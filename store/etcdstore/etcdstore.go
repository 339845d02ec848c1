// Package etcdstore keeps records in etcd: the store for workers on many
// machines that already have an etcd, or want their locks to survive the death
// of any one server.
//
// # Guarantees
//
// A commit is one Txn, so it is on the disks of a majority when it returns.
// Reads are linearizable, whichever member answers. A record's revision is
// etcd's own revision of the commit that wrote it, plus a number that Floor and
// a restored cluster raise (see eras.go): unrelated commits share no counter on
// which they could collide.
//
// The server decides expiry. Next to a record with a ttl is a key on a lease of
// etcd, its sign, which disappears with the lease: never before the ttl, and at
// most ten seconds and a leader's election after it. From then on the record is
// older than its ttl, and stays. A waiter learns that by the same watch as a
// release. The clients' clocks do not matter.
//
// # Limits
//
// etcd takes 1.5 MB and, level by level, 128 operations in one Txn; our limits
// fit into its defaults. It keeps every version of every key until someone
// compacts: without automatic compaction it fills up, and [Inspect] says so.
// The age of a record without a ttl, and the displayed age of one with a ttl,
// goes by the clocks of its writer and its reader; no expiry depends on it.
//
// # Failure
//
// A time-out or a lost connection during a commit leaves its outcome unknown. A
// refused password or a missing permission is driver.ErrDenied. A key below our
// prefix that we would not have written is driver.ErrDamaged. A watch that is
// cut, or whose past was compacted away, makes the waiter look again.
package etcdstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/store/driver"
)

// Defaults of [Options].
const (
	DefaultPoll    = 5 * time.Second
	DefaultTimeout = 3 * time.Second
)

// Options are those of every store.
type Options = driver.OpenOptions

func init() { driver.Register(Open, Inspect, "etcd", "etcds") }

// A Store is a prefix in etcd. It implements driver.Store.
type Store struct {
	client  *clientv3.Client
	members []string // their endpoints
	where   string   // the same, for messages
	user    string   // empty: none
	keys    keyspace
	poll    time.Duration
	timeout time.Duration

	mu      sync.Mutex
	format  *format // the newest we know
	high    int64   // the highest revision of etcd's that we saw
	current int     // the member that we talk to

	lines  lines
	leases pool
	memory memory
	life   *driver.Life
}

// Open opens the store at a URL, see [Parse]. It takes as long as one round trip
// to the first member that answers.
func Open(ctx context.Context, url string, o *Options) (*Store, error) {
	place, err := Parse(url)
	if err != nil {
		return nil, err
	}
	first := rand.IntN(len(place.Endpoints)) // spreads the clients over the members
	for i := range place.Endpoints {
		var s *Store
		if s, err = connect(ctx, place, (first+i)%len(place.Endpoints), o); err == nil {
			if err = s.begin(ctx, o != nil && o.Create); err == nil {
				return s, nil
			}
			err = errors.Join(err, s.Close())
		}
		if driver.Refusal(err) || ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// begin reads the format, and makes the store if it may.
func (s *Store) begin(ctx context.Context, create bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var st *pb.StatusResponse
	var asking sync.WaitGroup
	asking.Go(func() { st, _ = s.status(ctx) })
	f, err := s.load(ctx)
	asking.Wait()
	if errors.Is(err, driver.ErrMissing) && create {
		f, err = s.create(ctx)
	}
	if err == nil {
		f, err = s.sound(ctx, f, st)
	}
	if err != nil {
		return err
	}
	if s.learn(f); st != nil && s.lines.made.Load() == 1 { // with more connections we do not know which answered
		s.lines.proven.Store(1)
	}
	return nil
}

// learn keeps the format if it is newer than what we know, or of another
// cluster or life, where a later one may have a lower revision.
func (s *Store) learn(f *format) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.format; k == nil || f.mod > k.mod || f.life() != k.life() || f.Cluster != k.Cluster || f.Lead != k.Lead {
		s.format = f
	}
}

// saw notes a revision of etcd's.
func (s *Store) saw(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.high = max(s.high, revision)
}

// fell notes that etcd's revisions have gone back.
func (s *Store) fell(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.high = revision
}

// highest is the least revision that a later linearizable read can have.
func (s *Store) highest() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.high
}

func (s *Store) known() *format {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.format
}

// call prepares one request: it ends with ctx, with the store, and at its timeout.
func (s *Store) call(ctx context.Context) (context.Context, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	done, err := s.life.Use()
	if err != nil {
		return nil, nil, err
	}
	living, end := s.life.Living(ctx)
	return living, func() { end(); done() }, nil
}

// Close ends the connection. Leases stay: they end with their ttl, because a
// record may outlive us.
func (s *Store) Close() error {
	done := s.life.End()
	defer done()
	err := s.client.Close()
	if errors.Is(err, context.Canceled) { // caused by Close itself
		return nil
	}
	return err
}
