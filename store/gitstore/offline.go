package gitstore

import (
	"context"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// Offline opens what this machine last saw of a branch, and says when that was.
// It never asks the server. It is for looking: it commits nothing.
func Offline(ctx context.Context, remote string, o *Options) (driver.Store, time.Time, error) {
	s, err := newStore(ctx, remote, o)
	if err != nil {
		return nil, time.Time{}, err
	}
	_, at, err := s.Cached(ctx, driver.Query{})
	if err != nil {
		_ = s.Close()
		return nil, time.Time{}, err
	}
	return offline{s}, at, nil
}

// offline is a driver that reads the cache.
type offline struct{ s *Store }

func (o offline) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	snap, _, err := o.s.Cached(ctx, q)
	return snap, err
}

func (o offline) Commit(context.Context, driver.Batch) (int64, error) {
	return 0, fmt.Errorf("%w: nothing is changed without the server", driver.ErrDenied)
}

func (o offline) Wait(ctx context.Context, _ []driver.Guard) error {
	<-ctx.Done()
	return ctx.Err()
}

func (o offline) Close() error { return o.s.Close() }

// Commits is how many commits the branch has.
func (s *Store) Commits(ctx context.Context) (n int64, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		v, err := s.look(ctx)
		if err == nil {
			n = v.history
		}
		return err
	})
	return n, err
}
