package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestMain(m *testing.M) {
	host.Self() // reads files: not inside a bubble
	goleak.VerifyTestMain(m)
}

// A world is a store in a bubble of fake time, and shorthands for what owners
// do with it. What must succeed ends the test when it does not.
type world struct {
	*testing.T
	ctx context.Context
	mem *memstore.Store
	st  *store.Store

	before func(driver.Batch)      // if set, called before each commit
	refuse func(driver.Batch) bool // if set, says which commits the store does not take

	reading *atomic.Int32 // reads under way
}

// watched tells of commits before they are made.
type watched struct {
	driver.Store
	w *world
}

func (d *watched) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	d.w.reading.Add(1)
	defer d.w.reading.Add(-1)
	return d.Store.Read(ctx, q)
}

func (d *watched) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if before := d.w.before; before != nil {
		before(b)
	}
	if refuse := d.w.refuse; refuse != nil && refuse(b) {
		return 0, driver.ErrDenied
	}
	return d.Store.Commit(ctx, b)
}

// bubble runs fn in a world where each read takes a while.
func bubble(t *testing.T, fn func(w *world)) {
	t.Helper()
	near(t, func(w *world) {
		w.st = store.New(&watched{Store: drivertest.NewFar(w.T, w.mem, nil), w: w})
		defer w.settle() // no time passes after the test: whoever reads would never end
		fn(w)
	})
}

// near is bubble for a test about single instants: reading takes no time.
func near(t *testing.T, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(newWorld(t)) })
}

// newWorld is for tests that need real processes, and so real time.
func newWorld(t *testing.T) *world {
	mem := memstore.New()
	w := &world{T: t, ctx: context.Background(), mem: mem, reading: new(atomic.Int32)}
	w.st = store.New(&watched{Store: drivertest.NewStrict(t, mem), w: w})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// want requires an error of a kind: a sentinel, or "" for none.
func (w *world) want(err, target error) {
	w.Helper()
	if !errors.Is(err, target) {
		w.Errorf("error is %v, want %v", err, target)
	}
}

func as[E error](w *world, err error) (e E) {
	w.Helper()
	if !errors.As(err, &e) {
		w.Fatalf("error is %v, want a %T", err, e)
	}
	return e
}

func (w *world) acquire(owner string, keys ...string) lease.Grant {
	w.Helper()
	return w.grant(lease.AcquireRequest{Owner: owner, Keys: keys})
}

func (w *world) grant(r lease.AcquireRequest) lease.Grant {
	w.Helper()
	g, err := lease.Acquire(w.ctx, w.st, r)
	w.must(err)
	return g
}

func (w *world) try(owner string, keys ...string) error {
	_, err := lease.Acquire(w.ctx, w.st, lease.AcquireRequest{Owner: owner, Keys: keys})
	return err
}

// refused requires that the owner cannot have the keys now.
func (w *world) refused(owner string, keys ...string) *lease.HeldError {
	w.Helper()
	return as[*lease.HeldError](w, w.try(owner, keys...))
}

func (w *world) release(owner string, keys ...string) lease.ReleaseResult {
	w.Helper()
	out, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: owner, Keys: keys})
	w.must(err)
	return out
}

func (w *world) renew(owner string, keys ...string) error {
	_, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: owner, Keys: keys})
	return err
}

// holder is who holds the key, or who held it last and may be taken over;
// empty if there is no lock.
func (w *world) holder(key string) string {
	w.Helper()
	c := w.check(key)
	if c.Lock == nil {
		return ""
	}
	return c.Lock.Owner
}

func (w *world) check(key string) lease.CheckResult {
	w.Helper()
	c, err := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: key})
	w.must(err)
	return c
}

func (w *world) locked(key string) bool {
	w.Helper()
	return w.check(key).Locked
}

func (w *world) waiters(key string) (owners []string) {
	w.Helper()
	s, err := lease.Show(w.ctx, w.st, key)
	if !errors.Is(err, lease.ErrNotFound) {
		w.must(err)
	}
	for _, t := range s.Waiters {
		owners = append(owners, t.Owner)
	}
	return owners
}

// history is every event as "event keys owner".
func (w *world) history() (out []string) {
	w.Helper()
	h, err := lease.History(w.ctx, w.st, lease.HistoryRequest{})
	w.must(err)
	for _, e := range h.Events {
		out = append(out, strings.Join([]string{e.Event, strings.Join(e.Keys, "+"), e.Owner}, " "))
	}
	return out
}

// records is all that is stored, by key.
func (w *world) records() map[string]string {
	w.Helper()
	snap, err := w.mem.Read(w.ctx, driver.Query{Ranges: []driver.Range{{}}})
	w.must(err)
	out := map[string]string{}
	for _, r := range snap.Records {
		out[r.Key] = fmt.Sprintf("%d %s %s", r.Rev, r.Time, r.Value)
	}
	return out
}

// unchanged requires that fn writes nothing.
func (w *world) unchanged(what string, fn func()) {
	w.Helper()
	before := w.records()
	fn()
	if diff := cmp.Diff(before, w.records()); diff != "" {
		w.Errorf("%s changed the store:\n%s", what, diff)
	}
}

// kinds is the keys of all records of a kind.
func (w *world) kinds(prefix string) (keys []string) {
	w.Helper()
	for k := range w.records() {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// overwrite changes the store behind the back of the rules.
func (w *world) overwrite(key, value string) {
	w.Helper()
	write := driver.Write{Key: key}
	if value != "" {
		write.Value = []byte(value)
	}
	_, err := w.mem.Commit(w.ctx, driver.Batch{Writes: []driver.Write{write}})
	w.must(err)
}

// A call is an acquisition under way.
type call struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
	grant  lease.Grant
	err    error
}

// wait starts an acquisition that waits, and returns when it is queued or done.
func (w *world) wait(owner string, keys ...string) *call {
	w.Helper()
	return w.start(lease.AcquireRequest{Owner: owner, Keys: keys, Wait: 24 * time.Hour})
}

func (w *world) start(r lease.AcquireRequest) *call {
	w.Helper()
	defer w.settle()
	return w.begin(r)
}

// begin is start that does not wait.
func (w *world) begin(r lease.AcquireRequest) *call {
	w.Helper()
	ctx, cancel := context.WithCancelCause(w.ctx)
	c := &call{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.grant, c.err = lease.Acquire(ctx, w.st, r)
	}()
	return c
}

// settle returns when nothing more happens at this instant: nobody reads, which
// may take a while, nor waits a millisecond or two to repeat a commit.
func (w *world) settle() {
	synctest.Wait()
	for quiet, n := 0, 0; quiet < 3 && n < 1000; n++ {
		quiet++
		if w.reading.Load() > 0 {
			quiet = 0
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
	}
}

func (c *call) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// served requires that the call has its keys by now.
func (w *world) served(c *call) lease.Grant {
	w.Helper()
	w.settle()
	if !c.ended() {
		w.Fatal("still waiting")
	}
	w.must(c.err)
	return c.grant
}

func (w *world) waiting(calls ...*call) {
	w.Helper()
	w.settle()
	for i, c := range calls {
		if c.ended() {
			w.Fatalf("call %d does not wait any more: %v", i, c.err)
		}
	}
}

// stop ends a call that is still waiting.
func (w *world) stop(calls ...*call) {
	for _, c := range calls {
		c.cancel(nil)
		<-c.done
	}
}

// equal compares with cmp and says what was compared.
func equal[T any](w *world, what string, got, want T) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func ptr[T any](v T) *T { return &v }
