package lease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

// frozen is the store as a process sees it that can be stopped and continued:
// meanwhile none of its calls comes back, whatever their contexts say.
type frozen struct {
	*memstore.Store
	stopped atomic.Bool
	goOn    chan struct{}
}

func (f *frozen) pass() {
	if f.stopped.Load() {
		<-f.goOn
	}
}

func (f *frozen) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	f.pass()
	return f.Store.Read(ctx, q)
}

func (f *frozen) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	f.pass()
	return f.Store.Commit(ctx, b)
}

// A waiter that was stopped for longer than its ticket lasts gives up when it
// goes on. By then another call of its owner went on with the ticket.
func TestStoppedWaiterGivesUp(t *testing.T) {
	stopped := func(w *world) (*frozen, *call) {
		f := &frozen{Store: w.mem, goOn: make(chan struct{})}
		one := (&world{T: w.T, ctx: w.ctx, mem: w.mem, reading: w.reading, st: store.New(f)}).wait("bob", "a")
		f.stopped.Store(true)
		time.Sleep(40 * time.Second)
		return f, one
	}
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour})
		f, one := stopped(w)
		two := w.wait("bob", "a")
		equal(w, "waiters", w.waiters("a"), []string{"bob"})
		w.release("alice", "a")
		g := w.served(two)
		one.cancel(nil)
		f.stopped.Store(false)
		close(f.goOn)
		<-one.done
		if c := w.check("a"); !c.Locked || c.Lock.Token != g.Token {
			t.Errorf("it released what the other call was granted: %+v", c.Lock)
		}
	})
	bubble(t, func(w *world) { // the other call still waits: it keeps its place
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour})
		f, one := stopped(w)
		two := w.wait("bob", "a")
		carol := w.wait("carol", "a")
		one.cancel(nil)
		f.stopped.Store(false)
		close(f.goOn)
		<-one.done
		equal(w, "waiters", w.waiters("a"), []string{"bob", "carol"})
		w.release("alice", "a")
		w.served(two)
		w.stop(carol)
	})
	bubble(t, func(w *world) { // it goes on waiting: at the end of the line
		w.grant(lease.AcquireRequest{Owner: "alice", Keys: []string{"a"}, TTL: time.Hour})
		f, one := stopped(w)
		two := w.wait("bob", "a")
		f.stopped.Store(false)
		close(f.goOn)
		w.waiting(one, two)
		time.Sleep(30 * time.Second)
		equal(w, "waiters", w.waiters("a"), []string{"bob", "bob"})
		w.stop(one)
		w.release("alice", "a")
		w.served(two)
	})
}

// Two processes that one owner named in turn: the lease lives with the last.
func TestKeeperOfAnotherProcess(t *testing.T) {
	w := newWorld(t)
	one, two := sleeper(t), sleeper(t)
	p1, err := host.Find(one.Process.Pid)
	w.must(err)
	p2, err := host.Find(two.Process.Pid)
	w.must(err)
	keep := func(owner string, p host.Process) chan error {
		g := w.grant(lease.AcquireRequest{Owner: owner, Keys: []string{"a"}, Process: p, TTL: time.Hour})
		done := make(chan error, 1)
		go func() { done <- lease.Keep(w.ctx, w.st, g.LeaseID, p) }()
		return done
	}
	first := keep("s", p1)
	second := keep("s", p2)
	w.must(one.Process.Kill())
	_ = one.Wait()
	w.must(<-first)
	if !w.locked("a") {
		t.Fatal("released when a process ended that it no longer lives with")
	}
	child := sleeper(t)
	p3, err := host.Find(child.Process.Pid)
	w.must(err)
	third := keep("s/child", p3)
	w.must(child.Process.Kill())
	_ = child.Wait()
	w.must(<-third)
	if !w.locked("a") {
		t.Fatal("a child released what its parent holds")
	}
	w.must(two.Process.Kill())
	_ = two.Wait()
	w.must(<-second)
	if w.holder("a") != "" {
		t.Error("not released with its process")
	}
}
