package gitstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// Pauses after a lost race are random, up to a bound that doubles each time and
// depends on the duration of an attempt: on a busy machine or a slow network
// trying more often would make it worse.
const (
	leastPause   = 20 * time.Millisecond
	mostPause    = 5 * time.Second
	maxDoublings = 4
	leastAge     = 2 * time.Second // of a view that is probably not the newest
)

// How often a push may fail, or come too late, though the branch seems not to
// move. A mirror that shows us the branch may lag behind the server that takes
// the pushes.
const (
	maxFailures = 4
	maxTooLate  = 5
)

// Commit implements driver.Store.
func (s *Store) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	living, done, err := s.use(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(b.Writes) == 0 {
		rev, err := local.Holding(s.holding).Check(living, b)
		return rev, s.life.Ended(ctx, err)
	}
	if err := b.Check(); err != nil {
		return 0, err
	}
	// The caller may leave when its time is over while the push, which carries
	// the batches of others too, goes on: so we need our own values.
	b.Guards, b.Writes = slices.Clone(b.Guards), slices.Clone(b.Writes)
	for i, w := range b.Writes {
		b.Writes[i].Value = slices.Clone(w.Value)
	}
	type answer struct {
		rev int64
		err error
	}
	got := make(chan answer, 1)
	s.jobs.Go(func() {
		rev, err := s.group.Commit(ctx, b)
		got <- answer{rev, err}
	})
	select {
	case a := <-got:
		return a.rev, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// apply carries out the batches of a group as one commit of git.
func (s *Store) apply(group []*driver.Pending) {
	joint, cancel := driver.Joint(group)
	defer cancel()
	ctx, stop := s.life.Living(joint)
	defer stop()
	ctx, enough := s.server.git.limited(ctx)
	defer enough()

	w := &work{store: s, open: slices.Clone(group)}
	if err := s.inTurn(ctx, w.run); err != nil {
		err = w.untouched(s.told(ctx, err))
		for _, p := range w.open {
			p.Rev, p.Err = 0, s.life.Ended(p.Ctx, err)
		}
	}
	s.tidy()
}

// untouched says of an error that no push can have arrived. If a push had no
// answer, the server's later answers do not settle it.
func (w *work) untouched(err error) error {
	answer := driver.Refusal(err) || errors.Is(err, driver.ErrFull)
	unsure := slices.ContainsFunc(w.tried, func(a attempt) bool { return !a.sure })
	switch {
	case unsure && answer:
		return fmt.Errorf("a push had no answer, then: %v", err)
	case unsure || answer:
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUntouched, err)
}

// tidy lets git pack the cache when it has become crowded.
func (s *Store) tidy() {
	if s.life.Over() || !s.cache.crowded() {
		return
	}
	s.jobs.Go(func() {
		if s.gate.Lock(s.life.Context()) == nil {
			defer s.gate.Unlock()
			if s.cache.crowded() { // Close waits for it: half a repack is useless
				s.cache.tidy(context.Background(), s.server.git)
			}
		}
	})
}

// work is what is left to do of one group.
type work struct {
	store *Store
	open  []*driver.Pending // not decided yet
	tried []attempt         // pushes that may have arrived, or may still

	began    time.Time // of the last attempt
	losses   int
	failures int
	late     int  // pushes that came too late for a branch that does not seem to have moved
	whole    bool // do not cut the history: the server does not want it
}

// An attempt is one commit that was pushed.
type attempt struct {
	commit commit
	sure   bool // the server said that it did not take it
	revs   map[*driver.Pending]int64
}

// run tries until every batch is decided. An error concerns all that are still
// open.
func (w *work) run(ctx context.Context) error {
	for {
		v, err := w.store.base(ctx)
		if err != nil {
			return err
		}
		next, err := w.once(ctx, v)
		switch {
		case errors.Is(err, errCache) && w.failures < maxFailures:
			w.failures++
			if _, err := w.store.fetch(ctx, "", true); err != nil {
				return err
			}
		case err != nil || !next:
			return err
		}
	}
}

// base is the newest view of this machine. If the server has a newer one, the
// push will fail.
func (s *Store) base(ctx context.Context) (*view, error) {
	v, err := s.latest()
	if err == nil && v != nil {
		return v, nil
	}
	if err != nil && !errors.Is(err, errCache) {
		return nil, err
	}
	return s.fetch(ctx, "", err != nil)
}

// once decides the batches on a view and pushes the result. next means that
// some are still open.
func (w *work) once(ctx context.Context, v *view) (next bool, err error) {
	fault.Point("git.decide")
	w.began = time.Now()
	d := v.draft()
	a := attempt{revs: map[*driver.Pending]int64{}}
	w.open = slices.DeleteFunc(w.open, func(p *driver.Pending) bool {
		p.Err = p.Ctx.Err() // a caller that has left must not commit
		return p.Err != nil
	})
	if len(w.open) == 0 {
		return false, nil
	}
	for _, p := range w.open {
		rev, ok, err := d.add(p.Batch)
		if err != nil {
			return false, err
		}
		if ok {
			a.revs[p] = rev
		}
	}
	if len(a.revs) == 0 {
		return w.allBroken(ctx, v)
	}
	alone := !w.whole && w.store.due(v.history+1)
	if a.commit, err = d.write(ctx, alone); err != nil {
		if len(w.tried) == 0 { // nothing was sent
			err = local.Full(err)
		}
		return false, err
	}
	result, err := w.store.server.push(ctx, v.id, a.commit)
	switch result {
	case done:
		w.finish(a)
		// The commit counts, whether or not we can make a note of it.
		_ = w.store.adopt(w.store.life.Context(), a.commit)
		return false, nil
	case failed, lost, refused:
		if result == refused && strings.Contains(err.Error(), noSpaceText) {
			err = fmt.Errorf("%w: the server has no room: %w", driver.ErrFull, err)
		}
		a.sure = result != failed || driver.Refusal(err)
		w.tried = append(w.tried, a)
	}
	return w.lookAgain(ctx, v, result, err, alone)
}

// noSpaceText is what git says, on both sides, when a disk is full.
const noSpaceText = "No space left on device"

// due reports whether to cut the history at the n-th commit. If the server
// refuses, not every later commit tries again.
func (s *Store) due(n int64) bool {
	return n > s.compact && (n-s.compact)%64 == 1
}

// allBroken: no batch passes its guards on our view, which may be old.
func (w *work) allBroken(ctx context.Context, v *view) (next bool, err error) {
	now, err := w.store.look(ctx)
	if err != nil {
		return false, err
	}
	if now.id != v.id {
		patienceOf(ctx).renew()
		return true, nil
	}
	for _, p := range w.open {
		p.Err = driver.ErrConflict
	}
	w.open = nil
	return false, nil
}

// finish gives the batches of a commit that is on the branch their revisions.
// Those whose guards did not hold on what it was built on are conflicts.
func (w *work) finish(a attempt) {
	for _, p := range w.open {
		if rev, ok := a.revs[p]; ok {
			p.Rev = rev
		} else {
			p.Err = driver.ErrConflict
		}
	}
	w.open = nil
}

// lookAgain finds the outcome of a push that did not succeed: the branch
// decides, not what git printed. After a lost race it waits first, so that what
// it finds is still true when the next push comes.
func (w *work) lookAgain(ctx context.Context, v *view, result pushed, cause error, alone bool) (next bool, err error) {
	s := w.store
	if (result == lost || result == same) && !w.outOfDate() {
		if err := w.pause(ctx); err != nil {
			return false, after(ctx, cause, err)
		}
	}
	now, err := s.fetch(ctx, "", w.failures == maxFailures-1)
	if err != nil {
		if result == refused { // this answer is final
			return false, cause
		}
		return false, after(ctx, cause, err)
	}
	if a, found, err := w.landed(ctx, now); err != nil || found {
		if found {
			w.finish(a)
		}
		return false, err
	}
	if now.id != v.id { // another push was faster
		if result != failed {
			patienceOf(ctx).renew()
		}
		return true, nil
	}
	switch {
	case result == refused && alone:
		w.whole = true
		return true, nil
	case result == refused, result == failed && driver.Refusal(cause):
		return false, cause
	case result == lost && w.late < maxTooLate: // it has paused already
		w.late++
		return true, nil
	default:
		if w.failures++; w.failures >= maxFailures {
			return false, cause
		}
	}
	if err := w.pause(ctx); err != nil {
		return false, after(ctx, cause, err)
	}
	return true, nil
}

// after is the error of a push that was followed by another one. If the call ran
// out of time, the error of the other one says only that.
func after(ctx context.Context, cause, err error) error {
	switch {
	case cause == nil:
		return err
	case silent(ctx):
		return cause
	}
	return fmt.Errorf("%w (then: %w)", cause, err)
}

// landed looks for one of our commits in the history of the branch.
func (w *work) landed(ctx context.Context, now *view) (a attempt, found bool, err error) {
	if len(w.tried) == 0 {
		return a, false, nil
	}
	lowest, sure := w.tried[0].commit.rev, true
	for _, a := range w.tried {
		lowest, sure = min(lowest, a.commit.rev), sure && a.sure
	}
	deep := false
	for c := now.commit; c.rev >= lowest; {
		for _, a := range w.tried {
			if a.commit.id == c.id {
				return a, true, nil
			}
		}
		before, err := commit{}, errCache
		if c.parent != "" {
			before, err = w.store.objects.commit(c.parent, w.store.where)
		}
		switch {
		case err == nil:
			c = before
		case !errors.Is(err, errCache):
			return a, false, err
		case sure:
			return a, false, nil
		case c.parent == "" || deep:
			return a, false, errors.New("the history in which our commit might be was cut off")
		default: // the commit exists, but not in the cache
			if err := w.store.server.deepen(ctx); err != nil {
				return a, false, err
			}
			deep = true
		}
	}
	return a, false, nil
}

// outOfDate reports whether the first push lost because our view was old, and
// not because others are pushing now.
func (w *work) outOfDate() bool {
	return w.losses == 0 && w.began.Sub(w.store.cache.checkedAt()) > leastAge
}

// pause waits before the next attempt, longer and longer.
func (w *work) pause(ctx context.Context) error {
	bound := min(max(time.Since(w.began), leastPause)<<min(w.losses, maxDoublings), mostPause)
	w.losses++
	return driver.Sleep(ctx, rand.N(bound))
}
