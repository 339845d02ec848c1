package gitstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// look returns the branch as it is, or was at some moment after the call.
// Callers that come while another asks the server share the next answer.
func (s *Store) look(ctx context.Context) (*view, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	before := s.asked
	s.mu.Unlock()
	select {
	case s.looking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.looking }()

	s.mu.Lock()
	if s.answered > before {
		defer s.mu.Unlock()
		return s.view, nil
	}
	s.asked++
	n, moving := s.asked, s.moving
	s.mu.Unlock()

	v, moved, err := s.ask(ctx, moving >= 2)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered, s.confirmed = n, time.Now()
	if s.moving++; !moved {
		s.moving = 0
	}
	return v, nil
}

// ask compares the branch with what we know and fetches it if it has moved. If
// it moves all the time, it fetches without comparing.
func (s *Store) ask(ctx context.Context, atOnce bool) (v *view, moved bool, err error) {
	known, err := s.latest()
	if err != nil && !errors.Is(err, errCache) {
		return nil, false, err
	}
	if atOnce && known != nil {
		v, err := s.fetch(ctx, known.id, false)
		return v, err == nil && v.id != known.id, err
	}
	tip, err := s.server.tip(ctx)
	switch {
	case errors.Is(err, errAbsent) && known == nil:
		if err := s.absent(); !lags(err) {
			return nil, false, err
		} // another process has fetched a newer one meanwhile
	case err != nil && !errors.Is(err, errAbsent):
		return nil, false, err
	}
	if newest, err := s.latest(); err == nil && newest != nil && newest.id == tip {
		s.cache.checked()
		return newest, false, nil
	}
	v, err = s.fetch(ctx, tip, false)
	return v, true, err
}

// latest returns the newest view that this machine has, without asking
// anybody: nil if it has none.
func (s *Store) latest() (*view, error) {
	k, err := s.cache.load()
	if err != nil || k.Tip == "" {
		return nil, err
	}
	s.mu.Lock()
	v := s.view
	s.mu.Unlock()
	if v != nil && (v.id == k.Tip || v.rev > k.Rev) {
		return v, nil
	}
	return s.openKnown(k)
}

// openKnown opens what this machine last saw.
func (s *Store) openKnown(k *known) (*view, error) {
	s.objects.setFormat(k.Tip)
	v, err := s.objects.open(k.Tip, s.where)
	if err != nil {
		return nil, err
	}
	v.known = k
	s.set(v)
	return v, nil
}

// set makes v the newest view, and wakes waiters.
func (s *Store) set(v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view != nil && (s.view.id == v.id || s.view.rev > v.rev && s.view.state.id == v.state.id) {
		return
	}
	s.view = v
	close(s.news)
	s.news = make(chan struct{})
}

// fetch brings the cache up to date. tip is the commit that the server probably
// has: if another process has already fetched it, that is enough. anew drops the
// cache because it is unreadable. An answer that may come from a lagging mirror
// is asked for again.
func (s *Store) fetch(ctx context.Context, tip oid, anew bool) (*view, error) {
	for n := 0; ; n++ {
		v, err := s.gated(ctx, func(k *known) (*view, error) { return s.fetchOnce(ctx, k, tip, anew) })
		if !lags(err) || n == maxStale || driver.Sleep(ctx, stalePause<<n) != nil {
			return v, err
		}
		tip, anew = "", false
	}
}

// gated runs fn with what is known, while no other process of this machine
// changes the cache.
func (s *Store) gated(ctx context.Context, fn func(*known) (*view, error)) (*view, error) {
	if err := s.gate.Lock(ctx); err != nil {
		return nil, err
	}
	defer s.gate.Unlock()
	k, err := s.cache.load()
	if err != nil {
		return nil, err
	}
	return fn(k)
}

func (s *Store) fetchOnce(ctx context.Context, k *known, tip oid, anew bool) (*view, error) {
	if !anew && k.Tip != "" && k.Tip == tip && s.unseen(tip) {
		if v, err := s.openKnown(k); err == nil {
			return v, nil
		}
	}
	v, err := s.bring(ctx, k, tip, anew)
	if !anew && err != nil && s.cacheFault(ctx, err) {
		v, err = s.bring(ctx, k, tip, true)
	}
	if err != nil {
		return nil, err
	}
	if err := s.accept(k, v); err != nil {
		return nil, err
	}
	return v, s.remember(k, v)
}

// unseen reports whether the tip is newer than our view: then it came from the
// server, not from the cache.
func (s *Store) unseen(tip oid) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view == nil || s.view.id != tip
}

// bring fetches and opens. The caller has the gate.
func (s *Store) bring(ctx context.Context, k *known, tip oid, anew bool) (*view, error) {
	if anew {
		if err := s.empty(); err != nil {
			return nil, err
		}
	}
	if tip == "" {
		tip = k.Tip
	}
	s.objects.setFormat(tip)
	if err := s.cache.ready(len(tip)); err != nil {
		return nil, err
	}
	id, err := s.server.fetch(ctx, s.cache.blank())
	switch {
	case errors.Is(err, errAbsent):
		return nil, s.absent()
	case err != nil:
		return nil, err
	}
	return s.objects.open(id, s.where)
}

// cacheFault reports whether an error comes from the cache: the server still
// answers a question that needs no cache.
func (s *Store) cacheFault(ctx context.Context, err error) bool {
	if errors.Is(err, errCache) {
		return true
	}
	if said, ok := errors.AsType[*gitError](err); !ok || said.timeout > 0 || ctx.Err() != nil || driver.Refusal(err) {
		return false
	}
	_, err = s.server.tip(ctx)
	return err == nil
}

// empty drops the repository of the cache. The caller has the gate.
func (s *Store) empty() error {
	s.objects.cat.close()
	s.objects.forget()
	return s.cache.clear()
}

// accept refuses a branch that is not a continuation of the one we know: its
// revisions, and the fencing tokens with them, would be given out twice.
func (s *Store) accept(k *known, v *view) error {
	switch {
	case k.Rev == 0, k.ID != v.state.id && v.rev > k.Rev:
		return nil
	case v.rev < k.Rev && k.ID != v.state.id:
		return s.movedBack(k, v)
	case k.ID != v.state.id:
		return s.rewritten(k, v.commit)
	case v.rev < k.Rev:
		return s.behind(k, v)
	}
	for c := v.commit; c.id != k.Tip; {
		if c.rev <= k.Rev {
			if c.rev == k.Rev && c.tree == k.Tree { // compacted
				return nil
			}
			return s.rewritten(k, c)
		}
		if c.parent == "" { // compacted later than we looked
			return nil
		}
		before, err := s.objects.commit(c.parent, s.where)
		switch {
		case errors.Is(err, errCache): // not fetched: the cache began here
			return nil
		case err != nil:
			return err
		case before.rev >= c.rev:
			return s.rewritten(k, c)
		}
		c = before
	}
	return nil
}

func (s *Store) rewritten(k *known, c commit) error {
	return fmt.Errorf("%w: the history of %s was rewritten: commit %.12s has taken the place of %.12s at revision %d; "+
		"put that commit back, or go on from what is there with: tasklock init --raise", driver.ErrDamaged, s.where, c.id, k.Tip, k.Rev)
}

// remember notes a view that the server has confirmed. The caller has the
// gate; k is what was known before.
func (s *Store) remember(k *known, v *view) error {
	now := *k
	now.Remote, now.Branch = s.server.place.show, s.server.ref[len("refs/heads/"):]
	now.Tip, now.Tree, now.Rev = v.id, v.tree, v.rev
	now.saw(v.state.id, v.rev, local.Clock())
	v.known = &now
	if err := s.cache.save(&now); err != nil {
		return err
	}
	s.set(v)
	return nil
}

// adopt notes a commit of our own that the server has taken.
func (s *Store) adopt(ctx context.Context, c commit) error {
	_, err := s.gated(ctx, func(k *known) (*view, error) {
		v, err := s.objects.open(c.id, s.where)
		if err != nil || k.Rev > c.rev && k.ID == v.state.id { // another process has seen more already
			return v, err
		}
		return v, s.remember(k, v)
	})
	return err
}
