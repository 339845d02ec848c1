package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

const (
	simKeys    = 3
	simSlots   = 4
	simClients = 5
	simSteps   = 600             // of the net, while there are faults
	simLimit   = 2 * time.Hour   // by when all must be over, in simulated time
	simBudget  = 8 * time.Second // of the short form, in real time
	simLong    = 12 * time.Minute
)

// TestSimulate runs clients on clocks of their own against a store behind a
// bad network, one world for each seed, and lets a judge watch. It runs as many
// seeds as fit into its time, a few seconds in the short form; TASKLOCK_SEEDS=n
// runs n, from TASKLOCK_SEED on. The long form begins with another seed each time.
func TestSimulate(t *testing.T) { simulateSeeds(t, false) }

// TestSimulatePools is TestSimulate of workers that share a pool, whose size
// changes.
func TestSimulatePools(t *testing.T) { simulateSeeds(t, true) }

func simulateSeeds(t *testing.T, pools bool) {
	first, count := long.Seeds(t)
	budget := simBudget
	if testing.Short() {
		budget /= 4
	}
	if long.Asked() {
		budget = long.Time(simLong)
	}
	start, seed := time.Now(), first
	var commits, grants int
	for told := start; count > 0 && seed < first+count || count == 0 && time.Since(start) < budget; seed++ {
		if time.Since(told) > time.Minute {
			told = time.Now()
			t.Logf("%d seeds in %v", seed-first, told.Sub(start).Round(time.Second))
		}
		j := simulate(t, seed, pools)
		commits, grants = commits+j.commits, grants+j.grants
		if j.guilty() {
			t.Fatalf("seed %d (TASKLOCK_SEED=%d TASKLOCK_SEEDS=1):\n%s\nlast commits:\n%s", seed, seed,
				strings.Join(j.faults[:min(5, len(j.faults))], "\n"), strings.Join(j.trace[max(0, len(j.trace)-30):], "\n"))
		}
	}
	t.Logf("%d seeds, %d commits, %d grants", seed-first, commits, grants)
	if grants == 0 {
		t.Error("nothing happened")
	}
}

// The same seed gives the same world: what failed once can be looked at again.
func TestSimulationIsDeterministic(t *testing.T) {
	for seed := range uint64(10) {
		one, two := simulate(t, seed, seed >= 5), simulate(t, seed, seed >= 5)
		if one.print() != two.print() {
			for i := range min(len(one.trace), len(two.trace)) {
				if one.trace[i] != two.trace[i] {
					t.Fatalf("seed %d, commit %d of %d:\n%s\n%s", seed, i, len(one.trace), one.trace[i], two.trace[i])
				}
			}
			t.Fatalf("seed %d: %d and %d commits", seed, len(one.trace), len(two.trace))
		}
	}
}

func simulate(t *testing.T, seed uint64, pools bool) *judge {
	j := newJudge()
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		net := &simnet{rand: rand.New(rand.NewPCG(seed, 0)), mem: memstore.New(), judge: j, pools: pools}
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		quiet, done := make(chan struct{}), make(chan struct{})
		if pools {
			net.begin(ctx)
		}
		for i := range simClients {
			c := &simclient{
				id: i, owner: fmt.Sprintf("team/w%d", i), net: net,
				rand: rand.New(rand.NewPCG(seed, uint64(i+1))), born: time.Now(),
			}
			c.rate = 0.95 + 0.1*c.rand.Float64()
			workers.Go(func() { c.work(ctx, quiet) })
			time.Sleep(time.Nanosecond * time.Duration(1+i))
		}
		go func() { workers.Wait(); close(done) }()
		for range simSteps {
			if net.step(); j.guilty() {
				break
			}
		}
		net.calm = true
		close(quiet)
		for start := time.Now(); ; net.step() {
			if time.Since(start) > simLimit {
				j.fault("someone still waits after %s", simLimit)
			}
			if j.guilty() {
				j.adjourn()
				cancel()
			}
			select {
			case <-done:
				cancel()
				return
			default:
			}
		}
	})
	return j
}

// work does this and that until it is quiet, and then must get every key once.
func (c *simclient) work(ctx context.Context, quiet chan struct{}) {
	c.connect()
	for over := false; !over; {
		c.act(ctx)
		c.sleep(3 * time.Second)
		if c.chance(0.1) {
			c.wire.crash()
			c.sleep(2 * simTTL)
			c.connect()
		}
		select {
		case <-quiet:
			over = true
		default:
		}
	}
	if c.wire.crashed() {
		c.connect()
	}
	if c.net.pools {
		c.final(ctx, lease.AcquireRequest{Keys: []string{"pool:p"}})
		c.final(ctx, lease.AcquireRequest{Keys: []string{"pool:p"}, Take: lease.TakeAll})
	}
	for k := range simKeys {
		c.final(ctx, lease.AcquireRequest{Keys: []string{fmt.Sprintf("k%d", k)}})
	}
}

// final gets what nobody keeps any more.
func (c *simclient) final(ctx context.Context, r lease.AcquireRequest) {
	r.Owner, r.TTL, r.Wait = c.owner, simTTL, time.Hour
	st := store.New(c.wire)
	if _, err := lease.Acquire(ctx, st, r); err != nil {
		c.judge().fault("client %d was not served in the end: %v", c.id, err)
	}
	if _, err := lease.Release(ctx, st, lease.ReleaseRequest{Owner: c.owner, Keys: r.Keys}); err != nil {
		c.judge().fault("client %d could not release in the end: %v", c.id, err)
	}
}

func (c *simclient) connect()      { c.wire = &wire{net: c.net, client: c} }
func (c *simclient) judge() *judge { return c.net.judge }

func (c *simclient) act(ctx context.Context) {
	st := store.New(c.wire)
	switch n := c.n(100); {
	case n < 50:
		c.hold(ctx, st)
	case n < 80:
		c.plain(ctx, st)
	case n < 82 && c.net.pools:
		c.resize(ctx, st)
	case n < 85:
		_, err := lease.Cleanup(ctx, st, lease.CleanupRequest{By: c.owner})
		c.expect(err)
	case n < 95:
		c.breakOne(ctx)
	default:
		c.jump()
	}
}

// expect allows the answers that the rules give and the failures of the net.
func (c *simclient) expect(err error) {
	var held *lease.HeldError
	var cycle *lease.DeadlockError
	var owner *lease.OwnerError
	var size *lease.PoolSizeError
	switch {
	case err == nil, errors.Is(err, lease.ErrLost), errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrUnreachable),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.As(err, &held), errors.As(err, &cycle), errors.As(err, &owner), errors.As(err, &size):
	default:
		c.judge().fault("client %d: unexpected %v", c.id, err)
	}
}

// hold works under a lease that is kept, looks at it before every step, and
// writes behind its fence. Sometimes it wants more while it holds.
func (c *simclient) hold(ctx context.Context, st *store.Store) {
	r := c.request()
	l, err := lease.HoldOn(ctx, st, r, c.clocks)
	c.expect(err)
	if err != nil {
		return
	}
	c.whole(r, l.Grant())
	c.judge().working(l, true)
	for range c.n(5) {
		c.sleep([]time.Duration{time.Second, simTTL, 3 * simTTL}[c.n(3)])
		k := l.Grant().Keys[c.n(len(l.Grant().Keys))]
		c.expect(c.write(ctx, st, k.Key, k.Token))
		if c.chance(0.2) {
			r := c.request()
			r.Owner = l.Owner()
			inner, err := lease.HoldOn(ctx, st, r, c.clocks)
			c.expect(err)
			if err == nil {
				c.judge().working(inner, true)
				c.sleep(simTTL)
				c.judge().working(inner, false)
				c.expect(inner.Release(ctx))
			}
		}
	}
	c.judge().working(l, false)
	c.expect(l.Release(ctx))
}

// whole requires that a grant has all that was asked for.
func (c *simclient) whole(r lease.AcquireRequest, g lease.Grant) {
	all := slices.ContainsFunc(g.Keys, func(k lease.KeyGrant) bool { return k.Key == "pool:p#all" })
	if slices.Contains(r.Keys, "pool:p") && (len(g.Slots()) < max(1, r.Take) || r.Take == lease.TakeAll && !all) {
		c.judge().fault("client %d wants %d slots and got %v", c.id, r.Take, g.Keys)
	}
}

func (c *simclient) write(ctx context.Context, st *store.Store, key string, token int64) error {
	_, err := st.Update(ctx, driver.Query{}, func(tx *store.Tx) error {
		if err := lease.Fence(tx, key, token); err != nil {
			return err
		}
		return tx.Put("register/"+key, map[string]int64{"token": token})
	})
	return err
}

// plain takes a lock as a script does: it comes back now and then, perhaps too
// late, and repeats a request whose outcome it does not know.
func (c *simclient) plain(ctx context.Context, st *store.Store) {
	r := c.request()
	r.ID = lease.NewID()
	g, err := lease.Acquire(ctx, st, r)
	for range 3 {
		if !errors.Is(err, store.ErrUnknown) {
			break
		}
		g, err = lease.Acquire(ctx, st, r)
	}
	c.expect(err)
	if err != nil {
		return
	}
	c.whole(r, g)
	for range c.n(4) {
		c.sleep([]time.Duration{time.Second, simTTL, 2 * simTTL}[c.n(3)])
		k := g.Keys[c.n(len(g.Keys))]
		_, err := lease.Renew(ctx, st, lease.RenewRequest{Owner: c.owner, Keys: []string{k.Key}, Token: k.Token})
		c.expect(err)
		c.expect(c.write(ctx, st, k.Key, k.Token))
	}
	for _, k := range g.Keys {
		rel := lease.ReleaseRequest{Owner: c.owner, Keys: []string{k.Key}}
		if c.chance(0.5) {
			rel.Token = k.Token
		}
		_, err := lease.Release(ctx, st, rel)
		c.expect(err)
	}
}

// resize gives the pool another size.
func (c *simclient) resize(ctx context.Context, st *store.Store) {
	_, err := lease.SetPool(ctx, st, lease.SetPoolRequest{Name: "p", Slots: 1 + c.n(simSlots), By: c.owner})
	c.expect(err)
}

// breakOne is someone with more rights.
func (c *simclient) breakOne(ctx context.Context) {
	root := &simclient{id: 100 + c.id, owner: "root", root: true, net: c.net, rand: rand.New(rand.NewPCG(uint64(c.n(1<<30)), 0))}
	root.connect()
	key := fmt.Sprintf("k%d", c.n(simKeys))
	if c.net.pools {
		key = fmt.Sprintf("pool:p#%d", 1+c.n(simSlots))
	}
	_, err := lease.Break(ctx, store.New(root.wire), lease.BreakRequest{By: "root", Keys: []string{key}})
	c.expect(err)
}
