package task_test

import (
	"context"
	"errors"
	"slices"
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
	"github.com/tasklock/tasklock/task"
)

func TestMain(m *testing.M) {
	host.Self() // reads files: not inside a bubble
	goleak.VerifyTestMain(m)
}

// A world is a store whose records are judged after every commit, and
// shorthands for what workers do with it. What must succeed ends the test when
// it does not.
type world struct {
	*testing.T
	ctx context.Context
	mem *judged
	st  *store.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	mem := newJudged(t.Errorf, time.Now)
	return &world{T: t, ctx: context.Background(), mem: mem, st: store.New(drivertest.NewStrict(t, mem))}
}

// large returns a world that is judged in the end only.
func large(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.mem.asleep = true
	t.Cleanup(func() {
		for _, fault := range w.mem.judge() {
			t.Errorf("%.1000s", fault)
		}
	})
	return w
}

// bubble runs fn in a world of fake time, where each read takes a while.
func bubble(t *testing.T, fn func(w *world)) {
	t.Helper()
	near(t, func(w *world) {
		w.st = store.New(drivertest.NewFar(w.T, w.mem, nil))
		defer time.Sleep(10 * drivertest.FarRead) // no time passes after the test: whoever reads would never end
		fn(w)
	})
}

// near is bubble for a test about single instants: reading takes no time.
func near(t *testing.T, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(newWorld(t)) })
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// want requires an error of a kind, or nil.
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

func equal[T any](w *world, what string, got, want T) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func ptr[T any](v T) *T { return &v }

// add puts tasks on the list and returns their ids.
func (w *world) add(list ...task.New) (ids []string) {
	w.Helper()
	out, err := task.Add(w.ctx, w.st, task.AddRequest{Tasks: list, By: "test"})
	w.must(err)
	for _, t := range out.Tasks {
		ids = append(ids, t.ID)
	}
	return ids
}

// in is a new task with that id in a section.
func in(section, id string, deps ...string) task.New {
	return task.New{ID: id, Title: "title of " + id, Section: section, DependsOn: deps}
}

// claim returns the token of the last task.
func (w *world) claim(owner string, ids ...string) int64 {
	w.Helper()
	g, err := w.tryClaim(owner, ids...)
	w.must(err)
	return token(g, ids[len(ids)-1])
}

func (w *world) tryClaim(owner string, ids ...string) (lease.Grant, error) {
	out, err := task.ClaimTasks(w.ctx, w.st, task.ClaimRequest{Tasks: ids, Acquire: lease.AcquireRequest{Owner: owner}})
	return out.Grant, err
}

func token(g lease.Grant, key string) int64 {
	for _, k := range g.Keys {
		if k.Key == key {
			return k.Token
		}
	}
	return 0
}

// acquire is what the command of that name does.
func (w *world) acquire(owner string, keys ...string) lease.Grant {
	w.Helper()
	g, err := w.tryAcquire(lease.AcquireRequest{Owner: owner, Keys: keys})
	w.must(err)
	return g
}

func (w *world) tryAcquire(r lease.AcquireRequest) (lease.Grant, error) {
	r.OuterKey = task.OuterKey
	return lease.Acquire(w.ctx, w.st, r)
}

// refused requires that the owner cannot have the keys now, because of key.
func (w *world) refused(because, owner string, keys ...string) {
	w.Helper()
	_, err := w.tryAcquire(lease.AcquireRequest{Owner: owner, Keys: keys})
	if held := as[*lease.HeldError](w, err); held.Key != because {
		w.Errorf("refused because of %s, want %s", held.Key, because)
	}
}

func (w *world) release(owner string, keys ...string) error {
	_, err := lease.Release(w.ctx, w.st, lease.ReleaseRequest{Owner: owner, Keys: keys})
	return err
}

func (w *world) renew(owner string, keys ...string) error {
	_, err := lease.Renew(w.ctx, w.st, lease.RenewRequest{Owner: owner, Keys: keys})
	return err
}

func (w *world) breakKey(key string) {
	w.Helper()
	_, err := lease.Break(w.ctx, w.st, lease.BreakRequest{Keys: []string{key}, By: "admin", Reason: "test"})
	w.must(err)
}

func (w *world) do(verb task.Verb, owner string, token int64, ids ...string) error {
	_, err := task.ChangeStatus(w.ctx, w.st, task.StatusRequest{Verb: verb, Tasks: ids, Owner: owner, Token: token})
	return err
}

func (w *world) reset(r task.ResetRequest) (ids []string, err error) {
	r.By = "admin"
	out, err := task.ResetTasks(w.ctx, w.st, r)
	for _, t := range out.Tasks {
		ids = append(ids, t.ID)
	}
	return ids, err
}

func (w *world) next(owner string) (string, error) {
	out, err := task.Next(w.ctx, w.st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: owner}})
	return out.Task.ID, err
}

// nextIs requires what the owner gets; "" for nothing.
func (w *world) nextIs(owner, want string) {
	w.Helper()
	id, err := w.next(owner)
	if want == "" {
		w.want(err, task.ErrNothingReady)
	} else {
		w.must(err)
	}
	if id != want {
		w.Fatalf("%s got %q, want %q", owner, id, want)
	}
}

func (w *world) show(id string) task.Info {
	w.Helper()
	i, err := task.Show(w.ctx, w.st, id)
	w.must(err)
	return i
}

func (w *world) status(id string, want task.Status) {
	w.Helper()
	if got := w.show(id).Status; got != want {
		w.Errorf("%s is %s, want %s", id, got, want)
	}
}

// list returns the ids that match.
func (w *world) list(r task.ListRequest) (ids []string) {
	w.Helper()
	out, err := task.List(w.ctx, w.st, r)
	w.must(err)
	for _, t := range out.Tasks {
		ids = append(ids, t.ID)
	}
	return ids
}

// holds is "key:owner" for every live lock.
func (w *world) holds(want ...string) {
	w.Helper()
	out, err := lease.List(w.ctx, w.st, lease.ListRequest{})
	w.must(err)
	got := []string{}
	for _, l := range out.Locks {
		if l.State == lease.Held {
			got = append(got, l.Key+" "+l.Owner)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	equal(w, "locks", got, append([]string{}, want...))
}

// unchanged requires that fn writes nothing.
func (w *world) unchanged(what string, fn func()) {
	w.Helper()
	before := w.mem.dump()
	fn()
	if diff := cmp.Diff(before, w.mem.dump()); diff != "" {
		w.Errorf("%s changed the store:\n%s", what, diff)
	}
}

// drop deletes a record behind the back of the rules, as a store may that
// forgets a lease when its time is over.
func (w *world) drop(key string) {
	w.Helper()
	_, err := w.mem.Store.Commit(w.ctx, driver.Batch{Writes: []driver.Write{{Key: key}}})
	w.must(err)
}

// settle returns when nothing more happens: reads take a few milliseconds each.
func (w *world) settle() {
	for range 5 * drivertest.FarRead / time.Millisecond {
		synctest.Wait()
		time.Sleep(2 * time.Millisecond)
	}
	synctest.Wait()
}
