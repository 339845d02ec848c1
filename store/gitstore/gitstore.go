// Package gitstore keeps records on a branch of a git remote: the store for
// people who share only a repository.
//
// # Guarantees
//
// A commit that returned is on the branch at the server. Commits are
// serialisable: the server moves the branch only if it is still at the commit we
// built on, named by its full object id, and no two commits have the same id.
// Reads ask the server first. Nothing is decided from the cache alone; only
// [Store.Cached] reads it, and says how old it is.
//
// A commit is one push. If somebody else pushed meanwhile, we check its guards
// against the new state and push again, with growing, random pauses, until its
// context ends; only a guard that really broke is a conflict. Commits of one
// process go together, processes of one machine take turns.
//
// git works in our own bare repository: it uses and runs nothing of the user's
// work tree, index, hooks or repository configuration. It does use the user's
// way to the server (credential helpers, ssh, proxies).
//
// # Limits
//
// Every operation costs a round trip of git, tens of milliseconds on a fast
// network and a second on a slow one, so leases are counted in minutes. There
// are no notifications: waiters ask every few seconds.
//
// There is no common clock. A record's age counts from when this machine first
// saw it or, if that is longer, from two minutes after its writer's clock. A
// clock that is wrong by more than that makes records of that machine, or all
// others to that machine, look older than they are.
//
// From time to time a commit replaces the branch's history, which needs the
// right to force-push that branch.
//
// # Failure
//
// A missing branch is driver.ErrMissing. If this machine has seen the branch
// before and it is gone or rewritten, that is driver.ErrDamaged until
// [Store.Raise]; so is a file on it that is not exactly as we write them. A
// branch that is where it was some time ago comes from a lagging mirror and does
// not count as an answer. If the server does not let us in, or refuses the push,
// that is driver.ErrDenied. Any other error means that the server was
// unreachable. After a push without an answer, we look for its commit on the
// branch before anything else.
package gitstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// Defaults of [Options].
const (
	DefaultPoll         = 5 * time.Second
	DefaultTimeout      = 30 * time.Second
	DefaultCompactAfter = 2000
)

// maxSkew is how far the clocks of two machines may be apart.
const maxSkew = 2 * time.Minute

// Options change how [Open] opens. Nil means the zero value.
type Options struct {
	// Cache is the folder with the caches of all remotes. Empty means
	// tasklock/git in the user's cache folder.
	Cache string
	// Create makes the branch if there is none. Otherwise that is
	// driver.ErrMissing.
	Create bool
	// Poll is how often a waiter asks the server. 0 means DefaultPoll.
	Poll time.Duration
	// Timeout ends a call that waits longer for the server, with every git
	// command that it started. It starts again when another push was faster.
	// 0 means DefaultTimeout.
	Timeout time.Duration
	// Dir is the user's work tree, where a remote like "origin" has a
	// meaning and relative paths begin. Empty means the current folder.
	Dir string
	// CompactAfter is how many commits the branch may have before its history
	// is cut. 0 means DefaultCompactAfter.
	CompactAfter int
}

// A Store is a branch. It implements driver.Store.
type Store struct {
	server  *server
	cache   *cache
	objects *objects
	where   string // the branch, for messages
	poll    time.Duration
	compact int64

	group *driver.Group
	turn  *local.Gate // one process of this machine commits at a time
	gate  *local.Gate // one process of this machine changes the cache at a time

	looking chan struct{} // held while the server is asked

	mu        sync.Mutex
	view      *view         // the newest we know
	news      chan struct{} // closed when view changes
	confirmed time.Time     // when the server last said that view is its newest
	asked     int           // how many times it was asked so far
	answered  int           // number of the last asking that got an answer
	moving    int           // how many times in a row it had changed

	jobs sync.WaitGroup // what goes on without a call
	life *driver.Life
}

func init() { driver.Register(open, inspect, "git") }

func open(ctx context.Context, remote string, o *driver.OpenOptions) (*Store, error) {
	if o == nil {
		o = &driver.OpenOptions{}
	}
	return Open(ctx, remote, &Options{Create: o.Create, Poll: o.Poll, Timeout: o.Timeout})
}

func inspect(ctx context.Context, remote string) (driver.Report, error) {
	return Inspect(ctx, remote, nil)
}

// Open opens the branch of a remote: a URL (file, ssh, http, https), host:path,
// a folder, or the name of a remote in the work tree. "#NAME" behind it names
// a branch other than DefaultBranch. It asks the server only if this machine has
// not seen the branch yet.
func Open(ctx context.Context, remote string, o *Options) (*Store, error) {
	s, err := newStore(ctx, remote, o)
	if err != nil {
		return nil, err
	}
	limited, cancel := s.server.git.limited(ctx)
	defer cancel()
	k, err := s.begin(limited)
	if err == nil && k.Rev == 0 {
		if _, err = s.look(limited); errors.Is(err, driver.ErrMissing) && o != nil && o.Create {
			err = s.inTurn(limited, s.create)
		}
	}
	if err != nil {
		return nil, errors.Join(s.told(limited, err), s.Close())
	}
	return s, nil
}

// begin makes the cache ready and returns what it knows.
func (s *Store) begin(ctx context.Context) (*known, error) {
	k, err := s.cache.load()
	if err != nil || k.Tip != "" && !s.cache.blank() {
		return k, err
	}
	if err := s.gate.Lock(ctx); err != nil {
		return nil, err
	}
	defer s.gate.Unlock()
	return k, s.cache.ready(len(k.Tip))
}

func newStore(ctx context.Context, remote string, options *Options) (*Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	o.Poll, o.Timeout = or(o.Poll, DefaultPoll), or(o.Timeout, DefaultTimeout)
	o.CompactAfter = or(o.CompactAfter, DefaultCompactAfter)
	remote, branch, named := strings.Cut(remote, "#")
	if !named || branch == "" {
		branch = DefaultBranch
	}
	if err := checkBranch(branch); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	theirs, err := newGit("", o.Timeout)
	if err != nil {
		return nil, err
	}
	p, err := resolve(ctx, theirs, remote, dir)
	if err != nil {
		return nil, err
	}
	folder, err := cacheDir(o.Cache, p, branch)
	if err != nil {
		return nil, err
	}
	c, err := openCache(folder)
	if err != nil {
		return nil, err
	}
	g, err := newGit(c.repo, o.Timeout)
	if err != nil {
		return nil, err
	}
	g.secrets = append(g.secrets, p.secrets...)
	g.session = isURL(p.url) && !strings.HasPrefix(p.url, "file:")
	p.logIn(g)
	if p.header != "" {
		g.configure("http.extraHeader", p.header)
	}
	s := &Store{
		server:  &server{git: g, place: p, ref: "refs/heads/" + branch},
		cache:   c,
		objects: newObjects(c.repo, &catFile{git: g}),
		where:   fmt.Sprintf("branch %s of %s", branch, p.show),
		life:    driver.NewLife(),
		poll:    o.Poll,
		compact: int64(o.CompactAfter),
		turn:    local.NewGate(filepath.Join(c.dir, "turn")),
		gate:    local.NewGate(filepath.Join(c.dir, "gate")),
		looking: make(chan struct{}, 1),
		news:    make(chan struct{}),
	}
	s.group = driver.NewGroup(s.apply)
	return s, nil
}

func or[T int | time.Duration](value, otherwise T) T {
	if value <= 0 {
		return otherwise
	}
	return value
}

// Close ends all waits and every running git command.
func (s *Store) Close() error {
	defer s.life.End()()
	s.jobs.Wait()
	s.objects.cat.close()
	s.turn.Close()
	s.gate.Close()
	return nil
}

// call runs what a caller asked for: the store stays open meanwhile, and the
// call ends with the store, and when its patience is over.
func (s *Store) call(ctx context.Context, fn func(context.Context) error) error {
	living, done, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	living, cancel := s.server.git.limited(living)
	defer cancel()
	return s.life.Ended(ctx, s.told(living, fn(living)))
}

// use keeps the store open during a call, and gives the call a context that
// also ends with the store.
func (s *Store) use(ctx context.Context) (living context.Context, done func(), err error) {
	free, err := s.life.Use()
	if err != nil {
		return nil, nil, err
	}
	living, stop := s.life.Living(ctx)
	return living, func() { stop(); free() }, nil
}
