package lease_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

// simnet lies between the clients of a simulation and their store. Every call
// stops here until the scheduler, which alone decides by the seed, lets it
// pass, lets it wait, applies it twice, or loses it or its reply.
type simnet struct {
	rand  *rand.Rand
	mem   *memstore.Store
	judge *judge
	calm  bool // no faults any more
	pools bool // the clients share a pool too

	mu    sync.Mutex
	calls []*simcall
}

type simcall struct {
	client *simclient
	query  driver.Query
	batch  *driver.Batch // nil: a read
	reply  chan simreply
	ghost  bool // its client has got an error already
}

type simreply struct {
	snap driver.Snapshot
	rev  int64
	err  error
}

func (c *simcall) order() int {
	o := 4 * c.client.id
	if c.batch != nil {
		o++
	}
	if c.ghost {
		o += 2
	}
	return o
}

var errNet = errors.New("connection lost")

// wire is one client's way to the store; after a crash nothing passes.
type wire struct {
	net    *simnet
	client *simclient

	mu   sync.Mutex
	dead bool
}

func (w *wire) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	r := w.call(ctx, &simcall{client: w.client, query: q})
	return r.snap, r.err
}

func (w *wire) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	r := w.call(ctx, &simcall{client: w.client, batch: &b})
	return r.rev, r.err
}

func (w *wire) call(ctx context.Context, c *simcall) simreply {
	if w.crashed() {
		return simreply{err: errNet}
	}
	c.reply = make(chan simreply, 1)
	w.net.mu.Lock()
	w.net.calls = append(w.net.calls, c)
	w.net.mu.Unlock()
	select {
	case r := <-c.reply:
		if w.crashed() {
			return simreply{err: errNet}
		}
		return r
	case <-ctx.Done(): // the request itself may still arrive
		return simreply{err: ctx.Err()}
	}
}

func (w *wire) crash() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
}

func (w *wire) crashed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// Wait is a hint: one notification in ten gets lost.
func (w *wire) Wait(ctx context.Context, guards []driver.Guard) error {
	if w.client.chance(0.1) {
		<-ctx.Done()
		return ctx.Err()
	}
	return w.net.mem.Wait(ctx, guards)
}

func (w *wire) Close() error { return nil }

// step lets some time pass and then one call.
func (n *simnet) step() {
	time.Sleep(n.tick())
	synctest.Wait()
	n.judge.trust()
	n.mu.Lock()
	var c *simcall
	if len(n.calls) > 0 && (n.calm || n.rand.IntN(10) > 0) {
		// Those who woke at the same instant came in any order.
		slices.SortStableFunc(n.calls, func(a, b *simcall) int { return cmp.Compare(a.order(), b.order()) })
		i := n.rand.IntN(len(n.calls))
		c = n.calls[i]
		n.calls = append(n.calls[:i], n.calls[i+1:]...)
	}
	n.mu.Unlock()
	if c != nil {
		n.deliver(c)
	}
	synctest.Wait()
	n.judge.trust()
}

func (n *simnet) tick() time.Duration {
	most := []time.Duration{2 * time.Millisecond, 2 * time.Millisecond, 2 * time.Millisecond, 50 * time.Millisecond, 2 * time.Second}
	if n.calm {
		most = most[:4]
	}
	return 1 + time.Duration(n.rand.Int64N(int64(most[n.rand.IntN(len(most))])))
}

func (n *simnet) deliver(c *simcall) {
	fate := n.rand.IntN(100)
	if n.calm {
		fate = 99
	}
	if c.batch == nil {
		if fate < 3 && !c.ghost {
			c.reply <- simreply{err: errNet}
			return
		}
		snap, err := n.mem.Read(context.Background(), c.query)
		n.answer(c, simreply{snap: snap, err: err})
		return
	}
	switch {
	case c.ghost:
		n.apply(c)
	case fate < 3: // the request is lost
		c.reply <- simreply{err: errNet}
	case fate < 6: // the reply is lost
		n.apply(c)
		c.reply <- simreply{err: errNet}
	case fate < 9: // the request comes late
		n.haunt(c)
		c.reply <- simreply{err: errNet}
	case fate < 12: // it comes twice
		n.haunt(c)
		n.answer(c, n.apply(c))
	default:
		n.answer(c, n.apply(c))
	}
}

// answer replies, now and then after the client has stopped to listen.
func (n *simnet) answer(c *simcall, r simreply) {
	if n.calm || n.rand.IntN(8) > 0 {
		c.reply <- r
		return
	}
	delay := time.Duration(n.rand.Int64N(int64(simTTL)))
	time.AfterFunc(delay, func() { c.reply <- r })
}

// haunt leaves a copy of the call in the net.
func (n *simnet) haunt(c *simcall) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, &simcall{client: c.client, batch: c.batch, reply: make(chan simreply, 1), ghost: true})
}

func (n *simnet) apply(c *simcall) simreply {
	rev, err := n.mem.Commit(context.Background(), *c.batch)
	if err == nil && len(c.batch.Writes) > 0 {
		n.judge.committed(c.client, *c.batch, rev)
	}
	return simreply{rev: rev, err: err}
}

const simTTL = 10 * time.Second

// simclient is one worker: it acquires, keeps, uses and releases locks, waits
// for others, crashes and comes back, on clocks of its own.
type simclient struct {
	id    int
	owner string
	root  bool // may break
	net   *simnet
	wire  *wire

	mu   sync.Mutex // its goroutines are two: the work and the heartbeat
	rand *rand.Rand
	rate float64
	step time.Duration // by which its wall clock is off
	born time.Time
}

func (c *simclient) chance(p float64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.Float64() < p
}

func (c *simclient) n(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(n)
}

// clocks run a little fast or slow, and the wall clock jumps.
func (c *simclient) clocks() (steady, wall time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	steady = c.born.Add(time.Duration(float64(time.Since(c.born)) * c.rate))
	return steady, steady.Add(c.step)
}

func (c *simclient) jump() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step += time.Duration(c.rand.Int64N(int64(2*time.Hour))) - time.Hour
}

func (c *simclient) sleep(most time.Duration) {
	c.mu.Lock()
	d := time.Duration(c.rand.Int64N(int64(most))) + 1
	c.mu.Unlock()
	time.Sleep(d)
}

func (c *simclient) keys() []string {
	keys := []string{fmt.Sprintf("k%d", c.n(simKeys))}
	if c.chance(0.3) {
		keys = append(keys, fmt.Sprintf("k%d", c.n(simKeys)))
	}
	return keys
}

func (c *simclient) request() lease.AcquireRequest {
	waits := []time.Duration{0, 0, 2 * time.Second, 20 * time.Second, time.Minute}
	r := lease.AcquireRequest{Owner: c.owner, Keys: c.keys(), TTL: simTTL, Wait: waits[c.n(len(waits))]}
	if c.net.pools && c.chance(0.8) {
		if r.Keys = []string{"pool:p"}; c.chance(0.2) {
			r.Keys = append(r.Keys, fmt.Sprintf("k%d", c.n(simKeys)))
		}
		r.Take = []int{0, 0, 0, 2, 3, lease.TakeAll}[c.n(6)]
	}
	return r
}

// begin makes the pool, before anything can go wrong.
func (n *simnet) begin(ctx context.Context) {
	root := &simclient{net: n}
	_, err := lease.SetPool(ctx, store.New(n.mem), lease.SetPoolRequest{Name: "p", Slots: 2, By: "boss"})
	if err != nil {
		n.judge.fault("%v", err)
	}
	snap, err := n.mem.Read(ctx, driver.Query{Keys: []string{"pool/p"}})
	for _, rec := range snap.Records {
		n.judge.committed(root, driver.Batch{Writes: []driver.Write{{Key: rec.Key, Value: rec.Value}}}, rec.Rev)
	}
	if err != nil || len(snap.Records) == 0 {
		n.judge.fault("no pool: %v", err)
	}
}
