package gitstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// A patience is how long one call may take: all that it does with git, and its
// wait for its turn among the processes of this machine. It starts again when the
// server has answered somebody else: a busy branch is not a silent one.
type patience struct {
	limit time.Duration
	end   context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	moves func() bool // reports whether others progressed since the last call
}

// errSilent is the cause of a context whose patience is over.
var errSilent = errors.New("no answer in time")

type patienceKey struct{}

// limited gives a call its patience. A nested call keeps the outer one.
func (g *git) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return limit(ctx, g.timeout)
}

func limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if patienceOf(ctx) != nil {
		return ctx, func() {}
	}
	p := &patience{limit: d}
	ctx, p.end = context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(d, p.over)
	return context.WithValue(ctx, patienceKey{}, p), func() { p.timer.Stop(); p.end(context.Canceled) }
}

func patienceOf(ctx context.Context) *patience {
	p, _ := ctx.Value(patienceKey{}).(*patience)
	return p
}

// over ends the call, unless it waits for others that progress.
func (p *patience) over() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moves != nil && p.moves() {
		p.timer.Reset(p.limit)
		return
	}
	p.end(errSilent)
}

// renew starts again, unless the time is over.
func (p *patience) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer.Stop() {
		p.timer.Reset(p.limit)
	}
}

// queue says how to see that the processes before us progress. nil ends the wait.
func (p *patience) queue(moves func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moves = moves
}

// silent reports whether ctx ended because the patience of its call was over.
func silent(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errSilent) }

// told turns the end of a call's patience into its own error: the caller's
// context has not ended.
func (s *Store) told(ctx context.Context, err error) error {
	if !silent(ctx) || !errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: no answer within %v%s", s.where, patienceOf(ctx).limit, moreTime)
}

const moreTime = "; if it is only slow, allow more time with --timeout"

// takeTurn waits until this process may commit. While others of this machine
// finish their work, waiting costs no patience.
func (s *Store) takeTurn(ctx context.Context) error {
	p := patienceOf(ctx)
	last := s.cache.turnEnded()
	moves := func() bool {
		now := s.cache.turnEnded()
		moved := !now.Equal(last)
		last = now
		return moved
	}
	p.queue(moves)
	err := s.turn.Lock(ctx)
	p.queue(nil)
	if err == nil && moves() {
		p.renew()
	}
	return err
}

// inTurn runs fn while no other process of this machine commits, and lets the
// next one through. If the server answered, waiters see that their turn will
// come.
func (s *Store) inTurn(ctx context.Context, fn func(context.Context) error) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.turn.Unlock()
	err := fn(ctx)
	if err == nil {
		_ = touch(s.cache.turnFile())
	}
	return err
}

func (c *cache) turnFile() string { return filepath.Join(c.dir, "turn") }

// turnEnded is when a process of this machine last had an answer in its turn.
func (c *cache) turnEnded() time.Time { return touched(c.turnFile()) }
