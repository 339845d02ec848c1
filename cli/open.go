package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/agent"
	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Config is the configuration, read once when it is first asked for.
func (a *App) Config() (*Config, error) {
	if a.cfg == nil && a.cfgErr == nil {
		folder, err := storeFolder(a.Dir)
		if err != nil {
			a.cfgErr = &ConfigError{File: a.Dir, Msg: err.Error()}
			return nil, a.cfgErr
		}
		a.cfg, a.cfgErr = loadConfig(configInput{Folder: folder, Env: a.Env, Flags: a.flags})
	}
	return a.cfg, a.cfgErr
}

// Identity is who calls, found out once when it is first asked for.
func (a *App) Identity() agent.Identity {
	if a.id.Owner == "" {
		in := agent.Input{Flag: a.Owner, Env: a.Env}
		if cfg, err := a.Config(); err == nil { // else opening the store will say so
			in.Config = cfg.fileOwner()
		}
		a.id = agent.Identify(in)
	}
	return a.id
}

// caller is the identity for commands that leave something behind under its
// name: a name that does not last is worth a warning.
func (a *App) caller() (agent.Identity, error) {
	id := a.Identity()
	if id.Warning != "" && !a.warned {
		a.warned = true
		a.warn("%s", id.Warning)
	}
	return id, lock.CheckOwner(id.Owner)
}

// Store opens the store, once. A store to be written is made where there is
// none. A store to be read that does not exist yet is empty, unless it was
// named: then it is driver.ErrMissing.
func (a *App) Store(ctx context.Context, write bool) (*store.Store, error) {
	if a.st != nil {
		return a.st, nil
	}
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	url, wasNamed := cfg.Store()
	o := OpenOptions{Create: write, AllowUnsafeFS: cfg.AllowUnsafeFS(), Poll: cfg.PollInterval()}
	d, err := a.Open(ctx, url, o)
	if errors.Is(err, driver.ErrMissing) && !write && !wasNamed {
		a.note("Note: there is no store here yet (%s): nothing is locked.", url)
		d, err = &lateStore{open: func(ctx context.Context) (driver.Store, error) { return a.Open(ctx, url, o) }, now: a.Now}, nil
	}
	if err != nil {
		return nil, err
	}
	a.st = store.New(d)
	return a.st, nil
}

// lateStore is a store that does not exist yet. It is empty until somebody
// makes it; whoever waits looks for it once a second.
type lateStore struct {
	open func(context.Context) (driver.Store, error)
	now  func() time.Time

	mu   sync.Mutex
	real driver.Store
}

func (l *lateStore) get(ctx context.Context) (driver.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.real == nil {
		d, err := l.open(ctx)
		if err != nil {
			return nil, err
		}
		l.real = d
	}
	return l.real, nil
}

func (l *lateStore) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	d, err := l.get(ctx)
	switch {
	case errors.Is(err, driver.ErrMissing):
		return driver.Snapshot{Now: l.now()}, nil
	case err != nil:
		return driver.Snapshot{}, err
	}
	return d.Read(ctx, q)
}

func (l *lateStore) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	d, err := l.get(ctx)
	if err != nil {
		return 0, err
	}
	return d.Commit(ctx, b)
}

func (l *lateStore) Wait(ctx context.Context, guards []driver.Guard) error {
	d, err := l.get(ctx)
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

// A listener ends a context with Ctrl+C or SIGTERM, once it listens: a command
// that is done at once does not pay for it. The signal is the context's cause;
// interrupted turns that into the command's error.
type listener struct {
	cancel context.CancelCauseFunc
	once   sync.Once
	ch     chan os.Signal
	done   <-chan struct{}
}

func newListener(ctx context.Context) (context.Context, *listener) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &listener{cancel: cancel, ch: make(chan os.Signal, 1), done: ctx.Done()}
}

// listen takes the signals from now on.
func (l *listener) listen() {
	l.once.Do(func() {
		signal.Notify(l.ch, os.Interrupt, syscall.SIGTERM)
		go func() {
			select {
			case s := <-l.ch:
				l.cancel(&signalError{s})
			case <-l.done:
			}
		}()
	})
}

func (l *listener) stop() {
	signal.Stop(l.ch)
	l.cancel(context.Canceled)
}
