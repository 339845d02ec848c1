package session

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// Config is the configuration, read once when it is first needed. At that moment
// tasklock-plus may take over: every command asks before it has printed anything or
// read its input.
func (s *Session) Config() (*config.Config, error) { return s.configure(s.FindPlace) }

// Found is Config for a command that founds a store: a folder that would use the one
// of the user becomes a place of its own.
func (s *Session) Found() (*config.Config, error) {
	return s.configure(func() (place.Place, error) {
		p, err := s.FindPlace()
		if err == nil && p.Kind == place.User {
			return s.named(place.Here(s.Dir))
		}
		return p, err
	})
}

func (s *Session) configure(find func() (place.Place, error)) (*config.Config, error) {
	if c := &s.settings; c.cfg == nil && c.err == nil {
		p, err := find()
		if err != nil {
			c.err = err
			return nil, err
		}
		c.cfg, c.err = config.Load(config.Input{Place: p, Env: s.Env, Flags: s.line.given()})
		if there := s.leaseStore(); there != "" && c.err == nil {
			c.err = s.useLease(context.Background(), c.cfg, there)
		}
		if c.err == nil {
			s.Leave(c.url())
		}
	}
	return s.settings.cfg, s.settings.err
}

// Where is the configuration, and the store that it names.
func (s *Session) Where() (*config.Config, string, error) {
	cfg, err := s.Config()
	if err != nil {
		return nil, "", err
	}
	url, _, err := cfg.Where()
	return cfg, url, err
}

// URL is the store in use, empty if the configuration cannot be read.
func (s *Session) URL() string {
	if _, err := s.Config(); err != nil {
		return ""
	}
	return s.settings.url()
}

// Forget makes the session read configuration and store again.
func (s *Session) Forget() { s.settings, s.opened = settings{}, opened{} }

// At is the same command in another folder.
func (s *Session) At(dir string) *Session {
	app := *s
	app.Dir = dir
	app.Forget()
	return &app
}

// ActAs changes the caller.
func (s *Session) ActAs(id identity.Identity) { s.caller.id = id }

// Leave lets tasklock-plus take over if only it has the driver of a store.
func (s *Session) Leave(url string) {
	if s.Plus != nil && !driver.Linked(url) {
		_ = s.Plus() // opening the store will say why not
	}
}

func (s *Session) OpenStore(ctx context.Context, url string, o *driver.OpenOptions) (driver.Store, error) {
	d, err := s.Open(ctx, url, o)
	return d, s.Linked(err)
}

// Linked says why tasklock-plus did not take over for a store whose driver is slow
// to load.
func (s *Session) Linked(err error) error {
	var e *driver.URLError
	if s.Plus != nil && errors.As(err, &e) && e.Package != "" {
		return s.Plus()
	}
	return err
}

// Identity is the caller, found once when it is first needed.
func (s *Session) Identity() identity.Identity {
	if s.caller.id.Owner == "" {
		s.caller.id = identity.Identify(s.IdentityInput())
	}
	return s.caller.id
}

// Names are all names of the caller: an agent without a session may have acquired
// locks under the name that a warning proposed.
func (s *Session) Names() []string {
	id := s.Identity()
	if id.Proposed == "" {
		return []string{id.Owner}
	}
	return []string{id.Owner, id.Proposed}
}

// IdentityInput is what the name of the caller is found from.
func (s *Session) IdentityInput() identity.Input {
	in := identity.Input{Flag: s.Owner, Env: s.Env}
	if cfg, err := s.Config(); err == nil { // opening the store reports the error
		in.Config = cfg.FileOwner()
	}
	return in
}

// Caller is the identity for commands that change something in its name.
func (s *Session) Caller() (identity.Identity, error) {
	id := s.Identity()
	return id, lease.CheckOwner(id.Owner)
}

// Act is the caller and the store, for a command that changes something in its
// name.
func (s *Session) Act(ctx context.Context, write bool) (identity.Identity, *store.Store, error) {
	id, err := s.Caller()
	if err != nil {
		return id, nil, err
	}
	st, err := s.Store(ctx, write)
	return id, st, err
}

// Holder is Caller for commands that leave a lock behind: it warns about a name
// that does not last.
func (s *Session) Holder() (identity.Identity, error) {
	s.warnName()
	return s.Caller()
}

func (s *Session) warnName() {
	if w := s.Identity().Warning; w != "" && !s.caller.warned {
		s.caller.warned = true
		s.Warn("%s", w)
	}
}

// Store opens the store, once. A store that does not exist yet is empty, until the
// first commit of a command that may make it; so bad input and --dry-run leave
// nothing behind. Reading a missing store that someone named is driver.ErrMissing.
//
// A command that makes a store says where: a name may be mistyped, and a folder may
// be the wrong one.
func (s *Session) Store(ctx context.Context, write bool) (*store.Store, error) {
	return s.store(ctx, write, (*config.Config).Unmade)
}

// Look is Store for a hook: if there is no place for a store, nothing is locked.
func (s *Session) Look(ctx context.Context) (*store.Store, error) {
	return s.store(ctx, false, (*config.Config).Elsewhere)
}

// store opens the store; unmade says why a missing one may not count as empty.
func (s *Session) store(ctx context.Context, write bool, unmade func(*config.Config) error) (*store.Store, error) {
	if s.opened.store != nil {
		return s.opened.store, nil
	}
	cfg, err := s.Config()
	if err != nil {
		return nil, err
	}
	if s.offline() {
		return s.seen(ctx)
	}
	url, wasNamed, err := cfg.Where()
	if err != nil {
		return nil, err
	}
	o := Opens(cfg)
	d, err := s.OpenStore(ctx, url, o)
	err = cfg.Blame(err)
	switch missing := errors.Is(err, driver.ErrMissing); {
	case missing && cfg.OfLease:
		return nil, &leaseStoreGone{url}
	case missing, err != nil && cfg.Users() && !place.Has(cfg.Place.Folder): // a home that is a file, say
		if no := unmade(cfg); no != nil {
			return nil, no
		}
	case err == nil:
		s.warnShared(cfg)
	}
	switch {
	case !errors.Is(err, driver.ErrMissing), config.IsGit(url): // only init makes a branch for everybody
	case write && !s.DryRun:
		d, err = s.Late(url, cfg.Why(), o, true), nil
	case write || !wasNamed:
		s.Note("Note: there is no store here yet (%s): nothing is locked.", config.WithoutPassword(url))
		d, err = s.Late(url, cfg.Why(), o, false), nil
	}
	if err != nil {
		return nil, err
	}
	s.opened.store = s.NewStore(url, s.withHeartbeat(url, d))
	return s.opened.store, nil
}

// Opens is how a command opens its store.
func Opens(c *config.Config) *driver.OpenOptions {
	return &driver.OpenOptions{AllowUnsafeFS: c.AllowUnsafeFS(), Poll: c.PollInterval(), Timeout: c.StoreTimeout()}
}

// BestConfig is what is known about the store if the files cannot be read: flags
// still count, and the environment up to its first mistake.
func (s *Session) BestConfig() *config.Config {
	p, _ := s.FindPlace()
	return config.WithoutFiles(config.Input{Place: p, Env: s.Env, Flags: s.line.given()})
}

// conversions turn the records of format 1 into those of format 2, in this order.
func conversions() []store.Conversion { return []store.Conversion{task.IndexNames} }

// NewStore is the store of a URL, over its driver. It decides how a command treats
// records of an older format.
func (s *Session) NewStore(url string, d driver.Store) *store.Store {
	return store.NewWith(d, store.Options{
		Conversions: conversions(),
		Local:       !isShared(url),
		Patience:    s.patience(),
		Raised: func(format int) {
			why := "was converted to"
			if format == store.FormatPools {
				why = "has its first pool, and so"
			}
			s.Note("Note: the store %s %s format %d; older versions of tasklock cannot use it any more.", config.WithoutPassword(url), why, format)
		},
	})
}

// patience is how long a transaction goes on trying. 0: the default.
func (s *Session) patience() time.Duration {
	if s.settings.cfg == nil {
		return 0
	}
	return s.settings.cfg.StoreTimeout()
}

// Shared reports whether other machines may use the store in use.
func (s *Session) Shared() bool { return isShared(s.URL()) }

// isShared reports whether other machines may use the store.
func isShared(url string) bool {
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "git", "postgres", "postgresql", "etcd", "etcds", "http", "https":
		return true
	}
	return false
}
