package lease_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// pool makes a pool of a size.
func (w *world) pool(name string, size int) {
	w.Helper()
	_, err := lease.SetPool(w.ctx, w.st, lease.SetPoolRequest{Name: name, Slots: size, By: "boss"})
	w.must(err)
}

// take acquires slots of pool:p at once.
func (w *world) take(owner string, n int) (lease.Grant, error) {
	return lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: owner, Keys: []string{"pool:p"}, Take: n})
}

func (w *world) takes(owner string, n int) lease.Grant {
	w.Helper()
	g, err := w.take(owner, n)
	w.must(err)
	return g
}

func (w *world) full(owner string, n int) *lease.HeldError {
	w.Helper()
	_, err := w.take(owner, n)
	return as[*lease.HeldError](w, err)
}

// waitSlots waits for slots of pool:p.
func (w *world) waitSlots(owner string, n int) *call {
	w.Helper()
	return w.start(lease.AcquireRequest{Owner: owner, Keys: []string{"pool:p"}, Take: n, Wait: 24 * time.Hour})
}

func (w *world) showPool() lease.PoolResult {
	w.Helper()
	p, err := lease.ShowPool(w.ctx, w.st, "p")
	w.must(err)
	return p
}

func TestPoolLetsInAsManyAsItsSize(t *testing.T) {
	bubble(t, func(w *world) {
		w.pool("p", 3)
		var slots []int
		for _, o := range []string{"a", "b", "c"} {
			g := w.takes(o, 0)
			if len(g.Keys) != 1 || g.Keys[0].Name != "pool:p" || g.Keys[0].Key != fmt.Sprintf("pool:p#%d", g.Slots()[0]) || g.Keys[0].Token != g.Token {
				t.Errorf("%+v", g)
			}
			slots = append(slots, g.Slots()...)
		}
		slices.Sort(slots)
		equal(w, "slots", slots, []int{1, 2, 3})
		h := w.full("d", 1)
		if h.Pool == nil || h.Pool.Used != 3 || h.Pool.Size != 3 || len(h.Pool.Holders) != 3 || h.Asked != "pool:p" || h.Position != 0 {
			t.Errorf("%+v", h)
		}
		w.release("b", "pool:p")
		w.takes("d", 1)
		equal(w, "used", w.showPool().Used, 3)
	})
}

func TestPoolIsCreatedBySizeAndMustAgree(t *testing.T) {
	bubble(t, func(w *world) {
		ask := func(owner string, slots, take int) error {
			_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: owner, Keys: []string{"pool:p"}, Slots: slots, Take: take, Wait: time.Second})
			return err
		}
		if e := as[*lease.PoolSizeError](w, ask("a", 0, 1)); e.Size != 0 || e.Pool != "p" {
			t.Errorf("%+v", e)
		}
		w.must(ask("ci", 1, 1))
		e := as[*lease.PoolSizeError](w, ask("a", 3, 1))
		equal(w, "message", e.Error(), "pool p has 1 slot, set by ci; you asked for 3")
		if e := as[*lease.PoolSizeError](w, ask("a", 0, 2)); e.Take != 2 || e.Size != 1 {
			t.Errorf("%+v", e)
		}
		w.must(ask("ci", 1, 0)) // it has a slot
		for _, bad := range []lease.AcquireRequest{
			{Keys: []string{"pool:p#1"}}, {Keys: []string{"pool:p#all"}}, {Keys: []string{"pool:p#x"}}, {Keys: []string{"pool:p#17"}}, {Keys: []string{"pool:p#01"}},
			{Keys: []string{"pool:a#b"}}, {Keys: []string{"pool:p"}, Take: 17}, {Keys: []string{"pool:p"}, Take: -2}, {Keys: []string{"pool:p"}, Slots: 17},
			{Keys: []string{"a"}, Take: 2}, {Keys: []string{"a"}, Slots: 2}, {Keys: []string{"pool:p"}, Force: true, Reason: "x"}, {Keys: []string{"POOL:p"}},
		} {
			bad.Owner = "a"
			_, err := lease.Acquire(w.ctx, w.st, bad)
			as[*lease.InvalidError](w, err)
		}
	})
}

func TestPoolServesInOrderWeightsIncluded(t *testing.T) {
	bubble(t, func(w *world) {
		w.pool("p", 3)
		for _, o := range []string{"a", "b", "c"} {
			w.takes(o, 1)
		}
		two, one, all, last := w.waitSlots("two", 2), w.waitSlots("one", 1), w.waitSlots("all", lease.TakeAll), w.waitSlots("last", 1)
		w.release("a", "pool:p")
		w.waiting(two, one, all, last) // one slot is free, and the first wants two
		if h := w.full("now", 1); h.Ahead != 4 || h.Pool.Used != 2 {
			t.Errorf("%+v", h)
		}
		w.release("b", "pool:p")
		w.served(two)
		w.waiting(one, all, last)
		w.release("c", "pool:p")
		w.served(one)
		w.waiting(all, last)
		w.release("two", "pool:p")
		w.waiting(all, last)
		w.release("one", "pool:p")
		g := w.served(all)
		equal(w, "slots", len(g.Slots()), 3)
		for _, k := range g.Keys {
			equal(w, "token of "+k.Key, k.Token, g.Token)
		}
		w.waiting(last)
		w.release("all", "pool:p")
		if after := w.served(last); after.Token <= g.Token {
			t.Errorf("token %d after an exclusive %d", after.Token, g.Token)
		}
		w.release("last", "pool:p")
		equal(w, "left", append(w.kinds("l"), w.kinds("queue/")...), nil)
	})
}

func TestPoolShrinksAndGrows(t *testing.T) {
	bubble(t, func(w *world) {
		w.pool("p", 4)
		for _, o := range []string{"a", "b", "c", "d"} {
			w.takes(o, 1)
		}
		three := w.waitSlots("three", 3)
		one := w.waitSlots("one", 1)
		w.pool("p", 2)
		w.settle()
		<-three.done
		if e := as[*lease.PoolSizeError](w, three.err); e.Size != 2 || e.Take != 3 {
			t.Errorf("%+v", e)
		}
		w.release("a", "pool:p")
		w.release("b", "pool:p")
		w.waiting(one) // two are still used
		w.release("c", "pool:p")
		if slot := w.served(one).Slots()[0]; slot > 2 {
			t.Errorf("slot %d of 2", slot)
		}
		w.full("x", 1)
		next := w.waitSlots("next", 1)
		w.pool("p", 3)
		w.served(next)
		w.full("x", 1)
	})
}

func TestGrowthUnderAllLetsNobodyIn(t *testing.T) {
	bubble(t, func(w *world) {
		w.pool("p", 2)
		w.takes("writer", lease.TakeAll)
		next := w.waitSlots("reader", 1)
		w.pool("p", 5)
		w.waiting(next)
		if h := w.full("other", 1); !h.Pool.All || h.Owner != "writer" {
			t.Errorf("%+v", h)
		}
		g := w.takes("writer", lease.TakeAll) // and gets the rest
		equal(w, "slots", len(g.Slots()), 5)
		w.release("writer", "pool:p")
		w.served(next)
	})
}

func TestAllNeedsDrainingSlotsToo(t *testing.T) {
	bubble(t, func(w *world) {
		w.pool("p", 3)
		held := map[int]string{}
		for _, o := range []string{"a", "b", "c"} {
			held[w.takes(o, 1).Slots()[0]] = o
		}
		w.pool("p", 1)
		w.release(held[1], "pool:p")
		w.release(held[2], "pool:p")
		all := w.waitSlots("writer", lease.TakeAll)
		w.waiting(all)
		w.release(held[3], "pool:p")
		equal(w, "slots", w.served(all).Slots(), []int{1})
	})
}

func TestLargestPool(t *testing.T) {
	for _, size := range []int{1, lease.MaxSlots} {
		bubble(t, func(w *world) {
			w.pool("p", size)
			for i := range size {
				w.grant(lease.AcquireRequest{Owner: fmt.Sprint("o", i), Keys: []string{"pool:p"}, TTL: time.Minute})
			}
			w.full("x", 1)
			time.Sleep(time.Hour)
			g := w.takes("writer", lease.TakeAll) // takes over all of them
			if len(g.TookOver) != size || len(g.Slots()) != size || len(g.Keys) != size+1 {
				t.Errorf("%+v", g)
			}
			w.must(w.renew("writer", "pool:p"))
			w.must(w.renew("writer", "pool:p#1"))
			next := w.waitSlots("next", size)
			_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"pool:p#1"}})
			w.must(err)
			w.served(next)
			equal(w, "locks", len(w.kinds("lock/")), size)
		})
	}
	bubble(t, func(w *world) { // and in a batch
		w.pool("p", 12)
		w.grant(lease.AcquireRequest{Owner: "a", Keys: []string{"pool:p", "x", "y", "z", "u"}, Take: lease.TakeAll})
		_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "a", Keys: []string{"pool:p", "x", "y", "z", "u", "v"}, Take: lease.TakeAll})
		as[*lease.InvalidError](w, err)
	})
}

func TestBatchOfKeysAndPools(t *testing.T) {
	bubble(t, func(w *world) {
		w.pool("p", 1)
		w.pool("q", 1)
		w.acquire("a", "pool:q")
		both := w.wait("b", "k", "pool:p", "pool:q")
		if w.locked("k") || w.showPool().Used != 0 {
			t.Error("a waiting batch holds something")
		}
		w.full("c", 1) // it queues for its free slot too
		w.release("a", "pool:q")
		g := w.served(both)
		equal(w, "keys", len(g.Keys), 3)
		w.release("b", "k", "pool:p", "pool:q")
		equal(w, "left", append(w.kinds("l"), w.kinds("queue/")...), nil)
	})
}

func TestSlotIsReentrant(t *testing.T) {
	bubble(t, func(w *world) {
		w.pool("p", 3)
		one := w.takes("a", 1)
		again := w.takes("a", 1)
		if !again.Keys[0].Reentrant || again.Keys[0].Key != one.Keys[0].Key {
			t.Errorf("%+v", again)
		}
		two := w.takes("a", 2)
		if len(two.Slots()) != 2 || w.showPool().Used != 2 {
			t.Errorf("%+v", two)
		}
		all := w.takes("a", lease.TakeAll)
		if len(all.Slots()) != 3 || len(all.Keys) != 4 || all.Token <= two.Token {
			t.Errorf("%+v", all)
		}
		w.release("a", "pool:p")
		equal(w, "left", w.kinds("l"), nil)
	})
}

func TestSlotHasOneUser(t *testing.T) {
	bubble(t, func(w *world) {
		hold := func(owner string, wait time.Duration) (*lease.Lease, error) {
			return lease.Hold(w.ctx, w.st, lease.AcquireRequest{Owner: owner, Keys: []string{"pool:p"}, Wait: wait})
		}
		w.pool("p", 2)
		outer, err := hold("a", 0)
		w.must(err)
		inner, err := hold(outer.Owner(), 0)
		w.must(err)
		equal(w, "slot", inner.Grant().Slots(), outer.Grant().Slots())
		deeper, err := hold(inner.Owner(), 0)
		w.must(err)
		equal(w, "slot", deeper.Grant().Slots(), outer.Grant().Slots())
		second, err := hold(outer.Owner(), 0)
		w.must(err)
		if slices.Equal(second.Grant().Slots(), outer.Grant().Slots()) || w.showPool().Used != 2 {
			t.Errorf("%+v", second.Grant())
		}
		_, err = hold(outer.Owner(), 0)
		as[*lease.HeldError](w, err)
		writer := w.waitSlots("writer", lease.TakeAll)
		done := make(chan *lease.Lease)
		go func() { // it does not wait behind the writer, who waits for its parent
			third, err := hold(outer.Owner(), time.Hour)
			if err != nil {
				t.Error(err)
			}
			done <- third
		}()
		w.waiting(writer)
		w.must(deeper.Release(w.ctx))
		w.must(inner.Release(w.ctx))
		third := <-done
		equal(w, "slot", third.Grant().Slots(), outer.Grant().Slots())
		for _, l := range []*lease.Lease{third, second, outer} {
			w.must(l.Release(w.ctx))
		}
		w.served(writer)
	})
}

func TestPoolDeadlocks(t *testing.T) {
	wait := func(w *world, owner string, take int, keys ...string) *call {
		return w.start(lease.AcquireRequest{Owner: owner, Keys: keys, Take: take, Wait: 24 * time.Hour})
	}
	deadlock := func(w *world, c *call) {
		w.Helper()
		w.settle()
		if !c.ended() {
			w.Fatal("waits for ever")
		}
		as[*lease.DeadlockError](w, c.err)
	}
	t.Run("two readers upgrade", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.pool("p", 3)
			w.takes("a", 1)
			w.takes("b", 1)
			first := w.waitSlots("a", lease.TakeAll)
			time.Sleep(time.Second)
			second := w.waitSlots("b", lease.TakeAll)
			deadlock(w, second)
			w.waiting(first)
			w.release("b", "pool:p")
			w.served(first)
		})
	})
	t.Run("one of several holders", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.pool("p", 2)
			w.acquire("me", "k")
			w.takes("a", 1)
			w.takes("b", 1)
			a := wait(w, "a", 0, "k")
			time.Sleep(time.Second)
			me := w.waitSlots("me", 1) // b may end
			w.waiting(a, me)
			w.release("b", "pool:p")
			w.served(me)
			w.release("me", "k")
			w.served(a)
		})
	})
	t.Run("all of several holders", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.pool("p", 2)
			w.acquire("me", "k", "l")
			w.takes("a", 1)
			w.takes("b", 1)
			a, b := wait(w, "a", 0, "k"), wait(w, "b", 0, "l")
			time.Sleep(time.Second)
			me := w.waitSlots("me", 1)
			deadlock(w, me)
			w.waiting(a, b)
			w.stop(a, b)
		})
	})
	t.Run("one holder of all", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.pool("p", 3)
			w.acquire("me", "k")
			w.takes("a", 1)
			w.takes("b", 1)
			a := wait(w, "a", 0, "k")
			time.Sleep(time.Second)
			deadlock(w, w.waitSlots("me", lease.TakeAll))
			w.waiting(a)
			w.stop(a)
		})
	})
	t.Run("the weight counts", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.pool("p", 3)
			w.acquire("me", "k")
			w.takes("a", 2)
			w.takes("b", 1)
			a := wait(w, "a", 0, "k")
			time.Sleep(time.Second)
			deadlock(w, w.waitSlots("me", 2)) // b alone is not enough
			me := w.waitSlots("me", 1)
			w.waiting(a, me)
			w.stop(a, me)
		})
	})
	t.Run("through a ticket ahead", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.pool("p", 2)
			w.takes("a", 1)
			w.acquire("me", "k")
			writer := w.waitSlots("writer", lease.TakeAll)
			time.Sleep(time.Second)
			a := wait(w, "a", 0, "k")
			time.Sleep(time.Second)
			deadlock(w, w.waitSlots("me", 1)) // one slot is free, but the writer is ahead
			w.waiting(writer, a)
			w.stop(writer, a)
		})
	})
}

func TestPoolCommands(t *testing.T) {
	bubble(t, func(w *world) {
		w.pool("p", 2)
		one := w.takes("a", 1)
		w.grant(lease.AcquireRequest{Owner: "b", Keys: []string{"pool:p", "k"}})
		c := w.check("pool:p")
		if !c.Locked || c.Pool.Used != 2 || c.Lock != nil {
			t.Errorf("%+v", c)
		}
		slot := one.Keys[0].Key
		if got := w.holder(slot); got != "a" {
			t.Errorf("%s is held by %q", slot, got)
		}
		for _, r := range []lease.CheckRequest{{HeldBy: "a"}, {Token: one.Token}, {Lease: one.LeaseID}} {
			r.Key = "pool:p"
			found, err := lease.Check(w.ctx, w.st, r)
			w.must(err)
			equal(w, "slot", found.Lock.Key, slot)
		}
		_, err := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "pool:p", HeldBy: "c"})
		w.want(err, lease.ErrLost)
		_, err = lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"pool:p"}})
		if e := as[*lease.WhichSlotError](w, err); len(e.Holders) != 2 {
			t.Errorf("%+v", e)
		}
		err = lease.RemovePool(w.ctx, w.st, lease.RemovePoolRequest{Name: "p", By: "boss"})
		if e := as[*lease.PoolBusyError](w, err); len(e.Holders) != 2 {
			t.Errorf("%+v", e)
		}
		out, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"pool:p"}, Owner: "b"})
		w.must(err)
		equal(w, "broken", len(out.Released), 2) // its whole lease
		if w.locked("k") || w.locked("pool:p") {
			t.Error("still locked")
		}
		equal(w, "free", w.release("b", "pool:p").Free, []string{"pool:p"})
		w.must(w.renew("a", "pool:p"))
		w.want(w.renew("b", "pool:p"), lease.ErrLost)
		w.release("a", "pool:p")
		all, err := lease.Pools(w.ctx, w.st)
		w.must(err)
		if len(all.Pools) != 1 || all.Pools[0].Size != 2 || all.Pools[0].Used != 0 || all.Pools[0].By != "boss" {
			t.Errorf("%+v", all)
		}
		w.must(lease.RemovePool(w.ctx, w.st, lease.RemovePoolRequest{Name: "p", By: "boss"}))
		w.want(lease.RemovePool(w.ctx, w.st, lease.RemovePoolRequest{Name: "p", By: "boss"}), lease.ErrNotFound)
		h, err := lease.History(w.ctx, w.st, lease.HistoryRequest{Key: "pool:p"})
		w.must(err)
		var what []string
		for _, e := range h.Events {
			what = append(what, e.Event)
		}
		equal(w, "history", what, []string{"pool set", "acquired", "acquired", "broken", "released", "pool removed"})
	})
}

func TestRepeatedRequestHasTheSameSlots(t *testing.T) {
	bubble(t, func(w *world) {
		w.pool("p", 4)
		r := lease.AcquireRequest{Owner: "a", ID: "r1", Keys: []string{"pool:p"}, Take: 2}
		g := w.grant(r)
		again := w.grant(r)
		equal(w, "slots", again.Slots(), g.Slots())
		equal(w, "used", w.showPool().Used, 2)
		w.release("a", "pool:p")
		_, err := lease.Acquire(w.ctx, w.st, r)
		w.want(err, lease.ErrLost)
	})
}

// A key may lie within a pool, as a task in a section for several workers.
func TestKeysWithinAPool(t *testing.T) {
	inPool := func(_ *store.Tx, key string) (string, error) {
		if kind, _ := lease.KindOf(key); kind == lease.Task {
			return "pool:p", nil
		}
		return "", nil
	}
	bubble(t, func(w *world) {
		try := func(owner string, keys ...string) error {
			_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: owner, Keys: keys, OuterKey: inPool})
			return err
		}
		w.pool("p", 2)
		w.must(try("a", "t1"))
		w.must(try("a", "t2")) // one slot is enough for one worker
		w.must(try("a/child", "t3"))
		equal(w, "used", w.showPool().Used, 1)
		w.must(try("b", "t4", "t5"))
		equal(w, "used", w.showPool().Used, 2)
		if h := as[*lease.HeldError](w, try("c", "t6")); h.Pool == nil || h.Asked != "pool:p" {
			t.Errorf("%+v", h)
		}
		writer := w.waitSlots("w", lease.TakeAll)
		w.must(try("b", "t6")) // it has a slot, and does not wait behind the writer
		c := w.start(lease.AcquireRequest{Owner: "c", Keys: []string{"t7"}, OuterKey: inPool, Wait: time.Hour})
		w.waiting(writer, c)
		w.release("a", "t1")
		w.release("b", "t4", "t5", "t6")
		w.waiting(writer, c) // a still has t2
		w.release("a/child", "t3")
		w.release("a", "t2")
		w.served(writer)
		w.waiting(c)
		w.release("w", "pool:p")
		w.served(c)
		w.release("c", "t7")
		equal(w, "left", append(w.kinds("l"), w.kinds("queue/")...), nil)
	})
	bubble(t, func(w *world) { // its slot is broken: so is what is within
		w.pool("p", 1)
		w.grant(lease.AcquireRequest{Owner: "a", Keys: []string{"pool:p"}})
		w.grant(lease.AcquireRequest{Owner: "a", Keys: []string{"t1"}, OuterKey: inPool})
		as[*lease.InUseError](w, releaseErr(w, "a", "pool:p"))
		_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{By: "root", Keys: []string{"pool:p#1"}})
		w.must(err)
		equal(w, "left", w.kinds("l"), nil)
	})
}

// remembers is a driver that answers guarded queries with locks as they were.
type remembers struct {
	driver.Store
	locks map[string]driver.Record
}

func (d *remembers) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	snap, err := d.Store.Read(ctx, q)
	if !q.Guarded || d.locks == nil {
		return snap, err
	}
	snap.Old = true
	snap.Records = slices.DeleteFunc(snap.Records, func(r driver.Record) bool { return driver.Kind(r.Key) == "lock/" })
	for _, key := range q.Keys {
		if rec, ok := d.locks[key]; ok {
			snap.Records = append(snap.Records, rec)
		}
	}
	return snap, err
}

// A grant may begin with what the driver remembers, which may be older than the
// size of the pool.
func TestOldHintsAboutSlots(t *testing.T) {
	near(t, func(w *world) {
		d := &remembers{Store: w.mem}
		old := store.New(d)
		take := func(owner string, near int) error {
			_, err := lease.Acquire(w.ctx, old, lease.AcquireRequest{Owner: owner, Keys: []string{"pool:p"}, Near: near})
			return err
		}
		w.pool("p", 4)
		d.locks = map[string]driver.Record{} // nobody has a slot
		held := map[int]string{}
		for _, o := range []string{"a", "b", "c", "d"} {
			held[w.takes(o, 1).Slots()[0]] = o
		}
		w.pool("p", 2)
		w.release(held[1], "pool:p")
		as[*lease.HeldError](w, take("x", 1)) // three are used
		w.release(held[3], "pool:p")
		w.release(held[4], "pool:p")
		w.must(take("x", 1))
		equal(w, "used", w.showPool().Used, 2)

		w.release("x", "pool:p")
		w.release(held[2], "pool:p")
		w.takes("writer", lease.TakeAll)
		w.pool("p", 3)
		as[*lease.HeldError](w, take("x", 3))
	})
}

// A repeated request gets what it was granted, whatever the size is now.
func TestRepeatedRequestAfterAnotherSize(t *testing.T) {
	for take, size := range map[int]int{lease.TakeAll: 5, 3: 2} {
		bubble(t, func(w *world) {
			w.pool("p", 4)
			r := lease.AcquireRequest{Owner: "a", ID: "r1", Keys: []string{"pool:p"}, Take: take}
			g := w.grant(r)
			w.pool("p", size)
			again := w.grant(r)
			equal(w, "slots", again.Slots(), g.Slots())
			equal(w, "used", w.showPool().Used, len(g.Slots()))
		})
	}
}

// The first pool of a store shuts out older versions of tasklock, in the commit that
// makes it: they would take its name, or a section's, as a plain key.
func TestFirstPoolRaisesTheFormat(t *testing.T) {
	ways := map[string]func(w *world) error{
		"set": func(w *world) error {
			_, err := lease.SetPool(w.ctx, w.st, lease.SetPoolRequest{Name: "p", Slots: 2, By: "boss"})
			return err
		},
		"slots": func(w *world) error {
			_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: "boss", Keys: []string{"pool:p"}, Slots: 2})
			return err
		},
		"section": func(w *world) error {
			_, err := w.st.Update(w.ctx, driver.Query{}, func(tx *store.Tx) error { return lease.SizeSection(tx, "p", 2, "boss") })
			return err
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				plain, format := "pool:p", func() (m store.Meta) {
					w.must(w.st.View(w.ctx, driver.Query{}, func(tx *store.Tx) (err error) {
						m, err = store.ReadMeta(tx)
						return err
					}))
					return m
				}
				if name == "section" {
					plain = lease.SectionPool("p")
				}
				w.acquire("old", "x")
				for key, value := range w.records() { // as an older version takes the name
					value = value[strings.Index(value, "{"):]
					switch {
					case key == "lock/x":
						w.overwrite("lock/"+plain, strings.Replace(value, `"x"`, `"`+plain+`"`, 1))
					case strings.HasPrefix(key, "lease/"):
						w.overwrite(key, strings.Replace(value, `"x"`, `"x","`+plain+`"`, 1))
					}
				}
				if h := as[*lease.HeldError](w, way(w)); h.Owner != "old" {
					t.Errorf("%+v", h)
				}
				if got := format(); got.Format != store.Format || w.records()["pool/p"] != "" {
					t.Errorf("%+v without a pool", got)
				}
				time.Sleep(25 * time.Hour) // the plain lock is over
				id := format().ID
				w.must(way(w))
				if got := format(); got.Format != store.FormatPools || got.ID != id {
					t.Errorf("%+v", got)
				}
				if w.records()["lock/"+plain] != "" {
					t.Error("the plain lock can still be renewed")
				}
			})
		})
	}
}
