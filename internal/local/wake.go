package local

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// Polling intervals with notification, and without it.
const (
	DefaultPoll = 5 * time.Second
	blindPoll   = 50 * time.Millisecond
)

// Wake carries the news of a commit to waiters in other processes through the
// times of 256 empty files. A file exists only once somebody has waited for it,
// so a commit that interests nobody costs a system call for each record and
// writes nothing. News may be false (two keys share a file) and may be lost
// (the poll finds out).
type Wake struct {
	dir  string
	poll time.Duration

	mu     sync.Mutex
	joined bool // uses the process's watcher
}

// NewWake returns the wake-up files in dir. Waiters also look after poll; 0
// means [DefaultPoll].
func NewWake(dir string, poll time.Duration) *Wake {
	if poll <= 0 {
		poll = DefaultPoll
	}
	return &Wake{dir: dir, poll: poll}
}

// Touch tells waiters for any of the keys, or for their kinds, that they
// changed. It is called after the commit and cannot fail: a waiter that misses
// it polls.
func (w *Wake) Touch(keys []string) {
	if _, err := os.Lstat(w.dir); err != nil {
		return // nobody ever waited for anything
	}
	now := time.Now()
	for _, name := range names(keys, true) {
		_ = os.Chtimes(filepath.Join(w.dir, name), time.Time{}, now)
	}
}

// Subscribe begins to listen for the keys ("kind/name") and kinds ("kind/").
// The caller then reads, waits, and closes the subscription when done.
func (w *Wake) Subscribe(keys []string) *Subscription {
	w.mu.Lock()
	if !w.joined {
		w.joined = true
		hub.join()
	}
	w.mu.Unlock()
	s := &Subscription{wake: w, news: make(chan struct{}, 1)}
	for _, name := range names(keys, false) {
		s.paths = append(s.paths, filepath.Join(w.dir, name))
	}
	s.listen()
	return s
}

// Close frees what waiting took. All subscriptions must be closed before.
func (w *Wake) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.joined {
		w.joined = false
		hub.leave()
	}
}

// create makes the files that nobody has waited for before.
func (w *Wake) create(paths []string) error {
	for _, path := range paths {
		_, err := os.Lstat(path)
		if !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Mkdir(w.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|noFollow, 0o600)
		if err != nil {
			return err
		}
		_ = f.Close()
	}
	return nil
}

// A Subscription is one waiter's interest.
type Subscription struct {
	wake  *Wake
	paths []string
	news  chan struct{}
	blind bool // the kernel gives no events: look at the files' times
	seen  []time.Time
}

// Wait returns nil when there may be news, which includes the passing of the
// poll interval, and the context's error when it has ended.
func (s *Subscription) Wait(ctx context.Context) error {
	slow := time.NewTimer(jitter(s.wake.poll))
	defer slow.Stop()
	var look <-chan time.Time
	if s.blind {
		t := time.NewTicker(min(s.wake.poll, blindPoll))
		defer t.Stop()
		look = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.news:
			s.renew()
			return nil
		case <-slow.C:
			s.renew()
			return nil
		case <-look:
			if s.changed() {
				return nil
			}
		}
	}
}

// Close ends the interest.
func (s *Subscription) Close() { hub.unsubscribe(s) }

func (s *Subscription) listen() {
	s.blind = s.wake.create(s.paths) != nil || hub.subscribe(s) != nil
	s.seen = s.times()
}

// renew listens again after a file was removed under us.
func (s *Subscription) renew() {
	if !s.blind && hub.lost(s) {
		s.listen()
	}
}

func (s *Subscription) notify() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *Subscription) changed() bool {
	now := s.times()
	for i := range now {
		if !now[i].Equal(s.seen[i]) {
			s.seen = now
			return true
		}
	}
	return false
}

func (s *Subscription) times() []time.Time {
	if !s.blind {
		return nil
	}
	times := make([]time.Time, len(s.paths))
	for i, path := range s.paths {
		if fi, err := os.Lstat(path); err == nil {
			times[i] = fi.ModTime()
		}
	}
	return times
}

// names returns the file names of the keys, each once, with those of their
// kinds if asked.
func names(keys []string, kinds bool) []string {
	var used [256]bool
	var list []string
	add := func(s string) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(s))
		if b := byte(h.Sum32() >> 8); !used[b] {
			used[b] = true
			list = append(list, fmt.Sprintf("%02x", b))
		}
	}
	for _, key := range keys {
		add(key)
		if kinds {
			add(driver.Kind(key))
		}
	}
	return list
}

// jitter spreads pollers that began together.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
