// Package httpstore uses a store through a tasklock server: for workers that cannot
// reach the database, or must not have its password. The server is `tasklock serve
// --peers`, and the worker has an access key with the role peer, which may write
// any record.
//
// # Guarantees
//
// Those of the store behind the server: the server passes each call on, once, and
// each answer back as it is. A call is one request on a connection that stays open.
// The clock is that of the store behind the server. An answer is late by the time it
// takes to arrive, so records look younger than they are, and never older.
//
// # Failure
//
// A commit that had not begun to leave when its request failed is
// driver.ErrUntouched: no connection, no name, a wrong certificate. After that, only
// an answer of the server itself says what became of it. A cut connection, silence,
// and the page of a proxy leave the outcome unknown. Nothing is sent twice, and no
// redirect is followed, because the key would go with it.
package httpstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tasklock/tasklock/internal/door"
	"github.com/tasklock/tasklock/store/driver"
)

// Defaults of [Options].
const (
	DefaultPoll    = 20 * time.Second
	DefaultTimeout = 10 * time.Second
)

// Options are those of every store. Create has no effect: the server has the store.
type Options = driver.OpenOptions

func init() { driver.Register(Open, Inspect, "https", "http") }

// A Store is a store behind a server. It implements driver.Store.
type Store struct {
	line line
	poll time.Duration
	life *driver.Life
}

// Open opens the store at a URL, see [Parse]. It takes one round trip.
func Open(ctx context.Context, url string, o *Options) (*Store, error) {
	place, err := Parse(url)
	if err != nil {
		return nil, err
	}
	s := &Store{poll: DefaultPoll, life: driver.NewLife()}
	timeout := DefaultTimeout
	if o != nil && o.Poll > 0 {
		s.poll = min(o.Poll, door.MaxWait)
	}
	if o != nil && o.Timeout > 0 {
		timeout = o.Timeout
	}
	if s.line, err = place.connect(timeout); err != nil {
		return nil, err
	}
	if _, err := s.Read(ctx, driver.Query{}); err != nil {
		_ = s.Close()
		return nil, place.missing(err)
	}
	return s, nil
}

// Read implements driver.Store.
func (s *Store) Read(ctx context.Context, q driver.Query) (snap driver.Snapshot, err error) {
	err = s.call(ctx, door.ReadPath, newParcel(door.Asks(q)), 0, func(a *answer) error {
		var head door.Snapshot
		if err := a.next(&head); err != nil {
			return err
		}
		if err := head.Problem.Err(); err != nil {
			return err
		}
		snap = head.Driver()
		for range head.Records {
			var r door.Record
			if err := a.next(&r); err != nil {
				return err
			}
			snap.Records = append(snap.Records, r.Driver(snap.Now))
		}
		return nil
	})
	if err != nil {
		return driver.Snapshot{}, err
	}
	return snap, nil
}

// Commit implements driver.Store.
func (s *Store) Commit(ctx context.Context, b driver.Batch) (rev int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := b.Check(); err != nil {
		return 0, err
	}
	p := newParcel(door.Sends(b))
	err = s.call(ctx, door.CommitPath, p, 0, func(a *answer) error {
		var c door.Committed
		if err := a.next(&c); err != nil {
			return err
		}
		rev = c.Rev
		return c.Problem.Err()
	})
	switch {
	case err == nil:
		return rev, nil
	case p.keep():
		return 0, fmt.Errorf("%w: %w", driver.ErrUntouched, err)
	}
	return 0, doubted(err)
}

// Wait implements driver.Store. Each request lasts as long as the store polls, at
// most, so that a server that is gone without a word is noticed.
func (s *Store) Wait(ctx context.Context, guards []driver.Guard) error {
	for {
		changed, long := false, s.poll/2+rand.N(s.poll/2)
		err := s.call(ctx, door.WaitPath, newParcel(door.Waits(guards, long)), long, func(a *answer) error {
			var w door.Waited
			if err := a.next(&w); err != nil {
				return err
			}
			changed = w.Changed
			return w.Problem.Err()
		})
		if err != nil || changed {
			return err
		}
	}
}

// call makes one request and reads its answer. long is how long the server may take
// on purpose.
func (s *Store) call(ctx context.Context, path string, p *parcel, long time.Duration, read func(*answer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done, err := s.life.Use()
	if err != nil {
		return err
	}
	defer done()
	living, end := s.life.Living(ctx)
	defer end()
	return s.life.Ended(ctx, s.line.post(living, path, p, long, read))
}

// Close ends all calls, and the connections.
func (s *Store) Close() error {
	done := s.life.End()
	defer done()
	s.line.transport.CloseIdleConnections()
	return nil
}

// Inspect reads all records through the server. What is wrong with the store behind
// it, `tasklock doctor` says on the server's machine.
func Inspect(ctx context.Context, url string) (driver.Report, error) {
	s, err := Open(ctx, url, nil)
	if err != nil {
		return driver.Report{}, err
	}
	defer func() { _ = s.Close() }()
	var r driver.Report
	records, rev := 0, int64(0)
	for all := (driver.Range{Limit: page}); ; {
		snap, err := s.Read(ctx, driver.Query{Ranges: []driver.Range{all}})
		if errors.Is(err, driver.ErrDamaged) {
			r.Problems = append(r.Problems, err.Error())
		} else if err != nil {
			return r, err
		}
		for _, rec := range snap.Records {
			if err := driver.CheckKey(rec.Key); err != nil {
				r.Problems = append(r.Problems, err.Error())
			}
			all.After = rec.Key
		}
		records, rev = records+len(snap.Records), max(rev, snap.Rev)
		if len(snap.Records) < page {
			r.Facts = fmt.Sprintf("tasklock server, revision %d, %d records", rev, records)
			return r, nil
		}
	}
}

// page is how many records Inspect asks for at once.
const page = 1000
