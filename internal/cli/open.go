package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Config is the configuration, read once when it is first asked for. That is
// also when another program may have to go on: every command asks before it has
// said anything, or read its input.
func (a *App) Config() (*Config, error) {
	if a.cfg == nil && a.cfgErr == nil {
		p, err := a.findPlace()
		if err != nil {
			a.cfgErr = err
			return nil, err
		}
		a.cfg, a.cfgErr = loadConfig(configInput{Place: p, Env: a.Env, Flags: a.flags})
		if there := a.leaseStore(); there != "" && a.cfgErr == nil {
			a.cfgErr = a.useLease(context.Background(), a.cfg, there)
		}
		if a.cfgErr == nil {
			url, _ := a.cfg.Store()
			a.leave(url)
		}
	}
	return a.cfg, a.cfgErr
}

// leave lets tasklock-plus go on where only that has the driver for a store.
func (a *App) leave(url string) {
	if a.Plus != nil && !driver.Linked(url) {
		_ = a.Plus() // else opening the store will say why not
	}
}

func (a *App) openStore(ctx context.Context, url string, o *driver.OpenOptions) (driver.Store, error) {
	d, err := a.Open(ctx, url, o)
	return d, a.linked(err)
}

// linked says why a store whose driver is slow to load was not left to
// tasklock-plus.
func (a *App) linked(err error) error {
	var e *driver.URLError
	if a.Plus != nil && errors.As(err, &e) && e.Package != "" {
		return a.Plus()
	}
	return err
}

// Identity is who calls, found out once when it is first asked for.
func (a *App) Identity() identity.Identity {
	if a.id.Owner == "" {
		a.id = identity.Identify(a.identityInput())
	}
	return a.id
}

// names are all names of the caller: an agent without a session may have taken
// locks under the one that a warning proposed.
func (a *App) names() []string {
	id := a.Identity()
	if id.Proposed == "" {
		return []string{id.Owner}
	}
	return []string{id.Owner, id.Proposed}
}

func (a *App) identityInput() identity.Input {
	in := identity.Input{Flag: a.Owner, Env: a.Env}
	if cfg, err := a.Config(); err == nil { // else opening the store will say so
		in.Config = cfg.fileOwner()
	}
	return in
}

// caller is the identity for commands that change something in its name.
func (a *App) caller() (identity.Identity, error) {
	id := a.Identity()
	return id, lease.CheckOwner(id.Owner)
}

// holder is caller for commands that leave a lock behind: a name that does not
// last is worth a warning.
func (a *App) holder() (identity.Identity, error) {
	a.warnName()
	return a.caller()
}

func (a *App) warnName() {
	if w := a.Identity().Warning; w != "" && !a.warned {
		a.warned = true
		a.warn("%s", w)
	}
}

// Store opens the store, once. Where there is none yet it is empty, until the
// first commit of a command that may make it does; so bad input and --dry-run leave
// nothing behind. Reading a store that does not exist though someone named it
// is driver.ErrMissing.
//
// A command that makes a store says where: a name may be mistyped, and a folder
// may not be the one that was meant.
func (a *App) Store(ctx context.Context, write bool) (*store.Store, error) {
	if a.st != nil {
		return a.st, nil
	}
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	if a.offline {
		return a.seen(ctx)
	}
	url, wasNamed, err := cfg.Where()
	if err != nil {
		return nil, err
	}
	o := cfg.opens()
	d, err := a.openStore(ctx, url, o)
	err = cfg.blame(err)
	switch missing := errors.Is(err, driver.ErrMissing); {
	case missing && cfg.ofLease:
		return nil, &leaseStoreGone{url}
	case missing, err != nil && cfg.users() && !place.Has(cfg.place.Folder): // a home that is a file, say
		if no := a.unmade(cfg); no != nil {
			return nil, no
		}
	case err == nil:
		a.warnShared(cfg)
	}
	switch {
	case !errors.Is(err, driver.ErrMissing), isGit(url): // a branch for all is made by init, on purpose
	case write && !a.DryRun:
		d, err = a.late(url, cfg.Why(), o, true), nil
	case write || !wasNamed:
		a.note("Note: there is no store here yet (%s): nothing is locked.", withoutPassword(url))
		d, err = a.late(url, cfg.Why(), o, false), nil
	}
	if err != nil {
		return nil, err
	}
	a.st = a.newStore(url, a.withLife(url, d))
	return a.st, nil
}

// blame says which place of the configuration names a store that cannot be
// meant. A flag is bad input; anything else is a bad configuration.
func (c *Config) blame(err error) error {
	var bad *lease.InvalidError
	v := c.values["store"]
	if v.origin == "--store" || !errors.As(err, &bad) && !errors.Is(err, driver.ErrInvalid) {
		return err
	}
	return &ConfigError{File: v.origin, Msg: err.Error()}
}

// lateStore is a store that does not exist yet. Whoever waits in it looks for
// it once a second.
type lateStore struct {
	app   *App
	url   string
	why   string // it is this one
	o     *driver.OpenOptions
	write bool

	mu   sync.Mutex
	real driver.Store
}

func (a *App) late(url, why string, o *driver.OpenOptions, write bool) *lateStore {
	return &lateStore{app: a, url: url, why: why, o: o, write: write}
}

// get opens the store if it is there by now, or makes it.
func (l *lateStore) get(ctx context.Context, create bool) (driver.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.real != nil {
		return l.real, nil
	}
	if cfg := l.app.cfg; create && l.url == cfg.place.URL() { // the folder that is ours ignores itself in git
		if err := cfg.makeFolder(); err != nil {
			return nil, err
		}
	}
	o := *l.o
	o.Create = create
	d, err := l.app.openStore(ctx, l.url, &o)
	if err != nil {
		return nil, err
	}
	l.real = d
	if create {
		l.app.note("Note: made the store %s: there was none (%s).", withoutPassword(l.url), l.why)
	}
	return d, nil
}

func (l *lateStore) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	d, err := l.get(ctx, false)
	switch {
	case errors.Is(err, driver.ErrMissing):
		return driver.Snapshot{Now: l.app.Now()}, nil
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

// A listener ends a context with Ctrl+C, SIGTERM or the end of the terminal, once it listens: a command
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
		if !signal.Ignored(syscall.SIGHUP) { // else nohup wants it so
			signal.Notify(l.ch, syscall.SIGHUP)
		}
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
