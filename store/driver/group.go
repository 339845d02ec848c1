package driver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// maxGroup bounds how many batches go down together, so that one commit's
// latency stays bounded under any load.
const maxGroup = 256

// A Group sends concurrent commits of one process down together: while as many
// callers write as may at once, the others queue, and the next of them takes all
// that have queued. Each batch is still decided and numbered alone, one after another;
// they share only the fsync or the round trip.
//
// There is no goroutine: the caller that finds the group idle does the work.
type Group struct {
	apply  func([]*Pending)
	atOnce int

	mu    sync.Mutex
	queue []*Pending
	busy  int // callers that lead
}

// Pending is one batch on its way. apply sets Rev or Err.
type Pending struct {
	Ctx   context.Context
	Batch Batch
	Rev   int64
	Err   error

	turn chan bool // true: lead the next group; closed: Rev and Err are set
}

// ErrLeft is what apply passes to [Answer] when the caller it runs in left: the
// context of the group's first batch ended before anything was begun.
var ErrLeft = errors.New("leader left")

// errAgain sends a batch to the queue once more, because its leader left before
// anything was begun.
var errAgain = errors.New("queue again")

// NewGroup returns a group that calls apply for its batches, one call at a
// time. apply must set Rev or Err of each Pending.
func NewGroup(apply func([]*Pending)) *Group { return NewGroups(apply, 1) }

// NewGroups is NewGroup with several calls of apply at once: for a server that can
// decide one group while it syncs another.
func NewGroups(apply func([]*Pending), atOnce int) *Group {
	return &Group{apply: apply, atOnce: atOnce}
}

// Commit carries out b, alone or together with others, and returns b's
// revision or error.
func (g *Group) Commit(ctx context.Context, b Batch) (int64, error) {
	for {
		rev, err := g.commit(ctx, b)
		if err != errAgain {
			return rev, err
		}
	}
}

func (g *Group) commit(ctx context.Context, b Batch) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := b.Check(); err != nil {
		return 0, err
	}
	p := &Pending{Ctx: ctx, Batch: b, turn: make(chan bool, 1)}
	g.mu.Lock()
	g.queue = append(g.queue, p)
	if g.busy < g.atOnce {
		g.busy++
		p.turn <- true
	}
	g.mu.Unlock()

	select {
	case lead := <-p.turn:
		for ; lead; lead = <-p.turn { // another leader may hand it the lead once more, and may have its batch
			g.lead()
		}
		return p.Rev, p.Err
	case <-ctx.Done():
		return g.leave(p)
	}
}

// lead carries out all queued batches and hands the lead on.
func (g *Group) lead() {
	g.mu.Lock()
	n := min(len(g.queue), maxGroup)
	batch := g.queue[:n:n]
	g.queue = g.queue[n:]
	g.mu.Unlock()

	if n > 0 { // else another leader has taken all
		g.apply(batch)
	}
	for _, p := range batch {
		close(p.turn)
	}
	g.handOn()
}

// handOn gives the lead to the first in the queue that does not have it.
func (g *Group) handOn() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.queue {
		select {
		case p.turn <- true:
			return
		default:
		}
	}
	if g.busy--; len(g.queue) == 0 {
		g.queue = nil
	}
}

// leave takes p out of the queue when its context has ended. If a leader
// already has it, the outcome is unknown to the caller.
func (g *Group) leave(p *Pending) (int64, error) {
	g.mu.Lock()
	for i, q := range g.queue {
		if q == p {
			g.queue = append(g.queue[:i:i], g.queue[i+1:]...)
			break
		}
	}
	g.mu.Unlock()
	select {
	case lead := <-p.turn:
		if !lead { // the leader finished meanwhile
			return p.Rev, p.Err
		}
		g.handOn() // p became leader meanwhile: hand it on
	default:
	}
	return 0, p.Ctx.Err()
}

// Answer gives err to all of a group of which nothing was begun. If the leader
// left, the others queue again.
func Answer(group []*Pending, life *Life, err error) {
	for _, p := range group {
		p.Rev, p.Err = 0, err
		if err != ErrLeft {
			continue
		}
		p.Err = life.Ended(p.Ctx, errAgain)
	}
}

// Left returns ErrLeft if ctx has ended with err.
func Left(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return ErrLeft
	}
	return err
}

// Joint returns a context that ends when the contexts of all members have
// ended: as long as one of them still wants its answer, the work goes on.
func Joint(group []*Pending) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	var left atomic.Int64
	left.Store(int64(len(group)))
	stops := make([]func() bool, len(group))
	for i, p := range group {
		stops[i] = context.AfterFunc(p.Ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}
