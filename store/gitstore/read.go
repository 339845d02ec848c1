package gitstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// Read implements driver.Store.
func (s *Store) Read(ctx context.Context, q driver.Query) (snap driver.Snapshot, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		return s.mended(ctx, func() error {
			snap, err = s.answer(ctx, q)
			return err
		})
	})
	return snap, err
}

func (s *Store) answer(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	if v := s.since(q.Since); v != nil {
		if snap, err := v.query(ctx, q); err == nil {
			snap.Old = true
			return snap, nil
		}
	}
	look := s.look
	if q.Poll {
		look = s.polled
	}
	v, err := look(ctx)
	if err != nil {
		return driver.Snapshot{}, err
	}
	return v.query(ctx, q)
}

// since is the last view of this machine, if it has that revision and can be
// read; otherwise nil.
func (s *Store) since(rev int64) *view {
	if rev == 0 {
		return nil
	}
	if v, err := s.latest(); err == nil && v != nil && v.rev >= rev {
		return v
	}
	return nil
}

// mended runs f, and once more with a new cache if this one is incomplete.
func (s *Store) mended(ctx context.Context, f func() error) error {
	err := f()
	if !errors.Is(err, errCache) {
		return err
	}
	if _, err := s.fetch(ctx, "", true); err != nil {
		return err
	}
	return f()
}

// Cached answers a query from what this machine last saw, without asking the
// server, and says when that was. It is for looking, never for deciding.
func (s *Store) Cached(ctx context.Context, q driver.Query) (snap driver.Snapshot, at time.Time, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		at = s.cache.checkedAt()
		v, err := s.latest()
		if err == nil && v == nil {
			err = fmt.Errorf("%w: %s was never seen on this machine", driver.ErrMissing, s.where)
		}
		if err == nil {
			snap, err = v.query(ctx, q)
		}
		return err
	})
	return snap, at, err
}

// holding reports whether all guards hold, and at which revision.
func (s *Store) holding(ctx context.Context, guards []driver.Guard) (ok bool, rev int64, err error) {
	return s.holdingBy(ctx, guards, s.look)
}

func (s *Store) holdingBy(ctx context.Context, guards []driver.Guard, look func(context.Context) (*view, error)) (ok bool, rev int64, err error) {
	ctx, cancel := s.server.git.limited(ctx)
	defer cancel()
	err = s.mended(ctx, func() error {
		v, err := look(ctx)
		if err != nil {
			return err
		}
		rev = v.rev
		ok, err = v.holds(guards)
		return err
	})
	return ok, rev, s.told(ctx, err)
}

// maxSilent is how many times in a row a waiter may get no answer.
const maxSilent = 3

// Wait implements driver.Store. It asks the server from time to time, and gets at
// once what others in this process learn.
func (s *Store) Wait(ctx context.Context, guards []driver.Guard) error {
	living, done, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	look := s.look
	for silent := 0; ; {
		s.mu.Lock()
		news := s.news
		s.mu.Unlock()
		ok, _, err := s.holdingBy(living, guards, look)
		switch {
		case living.Err() != nil:
			return s.life.Ended(ctx, living.Err())
		case err == nil && !ok:
			return nil
		case driver.Refusal(err):
			return err
		case err != nil:
			if silent++; silent == maxSilent {
				return err
			}
		default:
			silent = 0
		}
		pause := time.NewTimer(s.poll*3/4 + rand.N(s.poll/2+1))
		select {
		case <-living.Done():
			pause.Stop()
			return s.life.Ended(ctx, living.Err())
		case <-news:
			look = s.newest
		case <-pause.C:
			look = s.recent
		}
		pause.Stop()
	}
}

// newest is the view that another call in this process has just got.
func (s *Store) newest(ctx context.Context) (*view, error) {
	s.mu.Lock()
	v := s.view
	s.mu.Unlock()
	if v == nil {
		return s.look(ctx)
	}
	return v, nil
}

// recent is a view that was the newest half a poll ago: many waiters in one
// process need not ask one by one.
func (s *Store) recent(ctx context.Context) (*view, error) { return s.within(ctx, s.poll/2) }

// polled is a view that was the newest a poll ago: see [driver.Query.Poll].
func (s *Store) polled(ctx context.Context) (*view, error) { return s.within(ctx, s.poll) }

// within is a view that was the newest at most this long ago.
func (s *Store) within(ctx context.Context, age time.Duration) (*view, error) {
	s.mu.Lock()
	v, fresh := s.view, time.Since(s.confirmed) < age
	s.mu.Unlock()
	if v == nil || !fresh {
		return s.look(ctx)
	}
	return v, nil
}
