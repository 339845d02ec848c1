package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

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

func (l *lateStore) Close() error { return nil }
