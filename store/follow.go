package store

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// followEvery is about how often followed records are read. It varies, so that
// processes that started together drift apart.
const followEvery = time.Second

// A Look inspects the records. It returns nil, or what to do about them, once.
// It runs like a transaction function of [Store.View].
type Look func(*Tx) (told func(), err error)

// followers want to know soon when some records change. One loop reads for all
// of them.
type followers struct {
	mu   sync.Mutex
	list map[*follower]bool
	stop context.CancelFunc // of the loop; nil: there is none
}

type follower struct {
	keys []string
	look Look
}

// Follow reads the records about once a second and shows them to look, until
// look returns a function or stop is called. All followers share one read. It
// goes to the store and subscribes to nothing; if it fails, nothing happens. On
// git, where asking is expensive, it reads as often as the store polls. After
// stop, a look that has already begun has no effect.
func (s *Store) Follow(keys []string, look Look) (stop func()) {
	f := &follower{keys: keys, look: look}
	s.followers.mu.Lock()
	defer s.followers.mu.Unlock()
	if s.followers.list == nil {
		s.followers.list = map[*follower]bool{}
	}
	s.followers.list[f] = true
	if s.followers.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		s.followers.stop = cancel
		go s.follow(ctx)
	}
	return func() { s.followers.leave(f) }
}

// leave reports whether f was still following. The loop ends with the last one.
func (l *followers) leave(f *follower) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := l.list[f]
	if delete(l.list, f); len(l.list) == 0 {
		l.end()
	}
	return there
}

func (l *followers) end() {
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// all are the present followers, in groups that one read can serve.
func (l *followers) all() (groups [][]*follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var group []*follower
	keys := 0
	for f := range l.list {
		if keys += len(f.keys); keys > followAtOnce && len(group) > 0 {
			groups, group, keys = append(groups, group), nil, len(f.keys)
		}
		group = append(group, f)
	}
	return append(groups, group)
}

// follow is the loop. After failures it reads less often, to spare a store that
// is down.
func (s *Store) follow(ctx context.Context) {
	for failures := 0; ; {
		pause := followEvery*9/10 + s.random(followEvery/5)
		if driver.Sleep(ctx, pause<<min(failures, 2)) != nil {
			return
		}
		if failures++; s.lookOnce(ctx) == nil {
			failures = 0
		}
	}
}

// lookOnce looks for all, and returns the first error.
func (s *Store) lookOnce(ctx context.Context) (err error) {
	for _, group := range s.followers.all() {
		err = cmp.Or(err, s.lookFor(ctx, group))
	}
	return err
}

// lookFor reads once for a group, and runs what their looks return.
func (s *Store) lookFor(ctx context.Context, group []*follower) error {
	ctx, cancel := context.WithTimeout(ctx, followPatience)
	defer cancel()
	a := attempt{s: s, need: driver.Query{Poll: true}}
	for _, f := range group {
		a.need.Keys = append(a.need.Keys, f.keys...)
	}
	told := make([]func(), len(group))
	_, err := a.run(ctx, func(tx *Tx) error {
		for i, f := range group {
			told[i], _ = f.look(tx) // a record that one cannot read does not stop the others
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, tell := range told {
		if tell != nil && s.followers.leave(group[i]) {
			tell()
		}
	}
	return nil
}

// followAtOnce is about how many records one read asks for.
const followAtOnce = 1000

// followPatience bounds one read.
const followPatience = 30 * time.Second
