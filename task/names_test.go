package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

func (w *world) rename(id string, r task.EditRequest) error {
	r.Task, r.Owner = id, "test"
	_, err := task.Edit(w.ctx, w.st, r)
	return err
}

func (w *world) locked(key string, want bool) {
	w.Helper()
	c, err := lease.Check(w.ctx, w.st, lease.CheckRequest{Key: key})
	w.must(err)
	if c.Locked != want {
		w.Errorf("check %s: %v, want %v", key, c.Locked, want)
	}
}

// A task has one lock, whatever it is called.
func TestEveryNameIsOneLock(t *testing.T) {
	w := newWorld(t)
	w.add(task.New{Title: "Fix bug", Aliases: []string{"bug-17", "the crash"}}, task.New{Title: "Write tests"})
	names := []string{"t1", "1", "Fix bug", "bug-17", "the crash"}
	for _, name := range names {
		g := w.acquire("alice", name)
		if g.Keys[0].Key != "t1" || name != "t1" && g.Keys[0].Name != name {
			t.Errorf("%s: granted %+v", name, g.Keys)
		}
		w.holds("t1 alice")
		for _, other := range names {
			w.refused("t1", "carol", other)
			w.locked(other, true)
			w.must(w.renew("alice", other))
			as[*lease.OwnerError](w, w.release("carol", other))
			_, err := w.tryClaim("bob", other)
			as[*lease.HeldError](w, err)
		}
		w.must(w.release("alice", names[len(names)-1]))
		w.locked(name, false)
	}
	w.acquire("alice", "1", "Fix bug", "2") // two names of one task, and another
	w.holds("t1 alice", "t2 alice")
	w.breakKey("bug-17")
	w.holds()

	// Nothing but a whole name counts, outside of the commands about tasks.
	w.acquire("bob", "Fix")
	w.acquire("bob", "fix bug")
	w.acquire("bob", "bug")
	w.holds("Fix bob", "bug bob", "fix bug bob")
}

func TestNamesCountFromTheCommitThatGivesThem(t *testing.T) {
	w := newWorld(t)
	w.add(task.New{Title: "Fix bug"})
	w.must(w.rename("t1", task.EditRequest{Title: ptr("Mend bug"), Alias: []string{"m"}}))
	w.acquire("alice", "m")
	w.holds("t1 alice")
	w.acquire("bob", "Fix bug") // nobody is called so any more
	w.must(w.release("alice", "Mend bug"))
	w.must(w.release("bob", "Fix bug"))
	w.must(w.rename("t1", task.EditRequest{NoAlias: []string{"m", "never had"}}))
	w.acquire("bob", "m")
	w.holds("m bob")
	w.must(w.do(task.Skip, "alice", 0, "Mend bug"))
	_, err := task.Archive(w.ctx, w.st, task.RemoveRequest{Tasks: []string{"t1"}})
	w.must(err)
	w.acquire("bob", "Mend bug")
	w.holds("m bob", "Mend bug bob")
	if names := w.mem.names(); len(names) > 0 {
		t.Errorf("names of no task: %v", names)
	}
	aliases := strings.Split("a b c d e f g h i", " ")
	_, err = task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{{Title: "x", Aliases: aliases}}})
	as[*lease.InvalidError](w, err)
	w.add(task.New{Title: "x", Aliases: append(aliases[:8], "a")})
	as[*lease.InvalidError](w, w.rename("x", task.EditRequest{Alias: []string{"i"}}))
	as[*lease.InvalidError](w, w.rename("x", task.EditRequest{Alias: []string{"section:S"}}))
}

// Whoever locked a name before a task bore it keeps others out of the task.
func TestAnOlderLockOnAName(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "deploy")
		w.add(task.New{Title: "deploy"})
		_, err := w.tryClaim("bob", "t1")
		if held := as[*lease.HeldError](w, err); held.Key != "deploy" || held.Owner != "alice" {
			t.Errorf("%+v", held)
		}
		w.refused("deploy", "carol", "1")
		w.refused("deploy", "carol", "deploy")
		w.nextIs("bob", "")
		w.locked("1", true)
		for _, name := range []string{"deploy", "1", "t1"} { // its holder has it already
			if g := w.acquire("alice/child", name); !g.Keys[0].Reentrant {
				t.Errorf("%s: %+v", name, g)
			}
		}
		w.holds("deploy alice")
		w.must(w.renew("alice", "deploy"))
		w.must(w.rename("t1", task.EditRequest{Title: ptr("roll out")})) // it is still the work that alice does
		w.refused("deploy", "carol", "roll out")
		w.must(w.release("alice", "deploy"))
		w.acquire("dave", "deploy") // this one is about another thing
		w.claim("bob", "t1")
		w.holds("deploy dave", "t1 bob")
	})
	bubble(t, func(w *world) { // what is over is taken over, and cannot be renewed
		w.acquire("alice", "deploy")
		w.add(task.New{Title: "deploy"})
		time.Sleep(2 * time.Hour)
		w.claim("bob", "deploy")
		w.holds("t1 bob")
		w.want(w.renew("alice", "deploy"), lease.ErrLost)
	})
	bubble(t, func(w *world) { // its holder may claim it
		w.acquire("alice", "deploy")
		w.add(task.New{Title: "deploy"})
		w.claim("alice", "t1")
		w.holds("deploy alice", "t1 alice")
		w.must(w.release("alice", "deploy"))
		w.refused("t1", "bob", "deploy")
	})
	bubble(t, func(w *world) { // one of its children may, and then has it alone
		w.acquire("alice", "deploy")
		w.add(task.New{Title: "deploy"})
		w.claim("alice/one", "t1")
		for _, name := range []string{"deploy", "1", "t1"} {
			w.refused("t1", "alice/two", name)
			_, err := lease.Hold(w.ctx, w.st, lease.AcquireRequest{Owner: "alice", Keys: []string{name}})
			as[*lease.HeldError](w, err)
			if g := w.acquire("alice/one", name); !g.Keys[0].Reentrant && g.Keys[0].Key != "t1" {
				t.Errorf("%s: %+v", name, g)
			}
		}
		w.holds("deploy alice", "t1 alice/one")
	})
	bubble(t, func(w *world) { // a task that is held is not given the name of another lock
		w.add(task.New{Title: "x"})
		w.acquire("alice", "deploy")
		w.acquire("test", "x")
		w.unchanged("a name that is locked", func() {
			as[*lease.BusyError](w, w.rename("x", task.EditRequest{Alias: []string{"deploy"}}))
		})
		w.must(w.release("test", "x"))
		w.must(w.rename("x", task.EditRequest{Alias: []string{"deploy"}}))
		w.refused("deploy", "test", "x")
	})
}

// A waiter whose key becomes the name of a task waits for the task.
func TestANameIsGivenWhileSomebodyWaits(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("alice", "deploy")
		got := make(chan lease.Grant, 1)
		go func() {
			g, err := w.tryAcquire(lease.AcquireRequest{Owner: "bob", Keys: []string{"deploy"}, Wait: time.Hour})
			if err != nil {
				t.Error(err)
			}
			got <- g
		}()
		w.settle()
		w.add(task.New{Title: "deploy"})
		time.Sleep(time.Minute)
		w.must(w.release("alice", "deploy"))
		if g := <-got; g.Keys[0].Key != "t1" {
			t.Errorf("%+v", g)
		}
		for key := range w.mem.dump() {
			if strings.HasPrefix(key, "queue/") {
				t.Errorf("%s is left", key)
			}
		}
	})
}

func TestAmbiguousNames(t *testing.T) {
	w := newWorld(t)
	w.add(task.New{Title: "Fix bug"}, task.New{Title: "Fix bug"}, task.New{ID: "x", Title: "1"}, task.New{ID: "y", Title: "x"})
	_, err := w.tryAcquire(lease.AcquireRequest{Owner: "a", Keys: []string{"Fix bug"}})
	if e := as[*lease.AmbiguousError](w, err); !slices.Equal(e.IDs, []string{"t1", "t2"}) {
		t.Errorf("%+v", e)
	}
	as[*task.AmbiguousError](w, w.do(task.Skip, "a", 0, "Fix bug"))
	_, err = lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "Fix bug"})
	as[*lease.AmbiguousError](w, err)
	w.acquire("a", "x") // an id comes before a title,
	w.acquire("b", "1") // and so does a number
	w.holds("x a", "t1 b")
	w.must(w.release("b", "t1"))
	_, err = task.Delete(w.ctx, w.st, task.RemoveRequest{Tasks: []string{"t2"}})
	w.must(err)
	w.acquire("b", "Fix bug")
	w.holds("x a", "t1 b")

	var ids []string
	for range 6 {
		ids = append(ids, w.add(many(10, func(int) task.New { return task.New{Title: "TODO"} })...)...)
	}
	_, err = w.tryAcquire(lease.AcquireRequest{Owner: "a", Keys: []string{"TODO"}})
	as[*lease.AmbiguousError](w, err)
	for _, id := range ids {
		_, err = task.Delete(w.ctx, w.st, task.RemoveRequest{Tasks: []string{id}})
		w.must(err)
	}
	w.acquire("a", "TODO")
	w.holds("x a", "t1 b", "TODO a")
}

// A title that reads like another kind of key is not a name.
func TestTitlesThatAreNoKeys(t *testing.T) {
	w := newWorld(t)
	w.add(in("Core", "a"))
	w.add(task.New{Title: "section:Core"}, task.New{Title: "Section: Core"}, task.New{Title: "-v"}, task.New{Title: "a//b"}, task.New{Title: "path:src"})
	w.acquire("alice", "section:Core")
	w.holds("section:Core alice")
	for _, key := range []string{"Section:Core", "section: Core", "SECTION :Core"} {
		_, err := w.tryAcquire(lease.AcquireRequest{Owner: "a", Keys: []string{key}})
		if e := as[*lease.InvalidError](w, err); !strings.Contains(e.Rule, "did you mean section:Core") {
			t.Errorf("%v", e)
		}
	}
	w.must(w.do(task.Skip, "a", 0, "Section: Core")) // as a task it can still be called so
}

// A damaged record of the index hinders whoever asks for that name.
func TestADamagedName(t *testing.T) {
	w := newWorld(t)
	w.add(task.New{Title: "one"}, task.New{Title: "two"})
	w.mem.asleep = true
	_, err := w.mem.Store.Commit(w.ctx, driver.Batch{Writes: []driver.Write{{Key: "name/one", Value: []byte(`{"tasks":[]}`)}}})
	w.must(err)
	_, err = w.tryAcquire(lease.AcquireRequest{Owner: "a", Keys: []string{"one"}})
	w.want(err, driver.ErrDamaged)
	_, err = lease.Check(w.ctx, w.st, lease.CheckRequest{Key: "one"})
	w.want(err, driver.ErrDamaged)
	w.acquire("a", "two")
	w.acquire("a", "three")
	w.claim("a", "t1")
	w.must(w.do(task.Complete, "a", 0, "t1"))
	w.must(w.rename("t1", task.EditRequest{Title: ptr("uno")}))
	w.acquire("a", "uno")
	w.must(w.release("a", "1"))
	_, err = task.Delete(w.ctx, w.st, task.RemoveRequest{Tasks: []string{"t1"}})
	w.must(err)
	w.add(task.New{Title: "one"})
	w.claim("b", "t3")
}

// frugal refuses a commit that guards a whole kind, and counts guards.
type frugal struct {
	driver.Store
	t       *testing.T
	only    string // of kinds; empty: any
	allowed int    // of the first commits
	most    int
}

func (f *frugal) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	for _, g := range b.Guards {
		if strings.HasSuffix(g.Key, "/") && (f.only == "" || f.only == g.Key) && f.allowed <= 0 {
			f.t.Errorf("%.100s: guards all of %s", b.Note, g.Key)
		}
	}
	f.most = max(f.most, len(b.Guards))
	f.allowed--
	return f.Store.Commit(ctx, b)
}

// between runs fn before the next commit.
type between struct {
	driver.Store
	fn func()
}

func (b *between) Commit(ctx context.Context, batch driver.Batch) (int64, error) {
	if fn := b.fn; fn != nil {
		b.fn = nil
		fn()
	}
	return b.Store.Commit(ctx, batch)
}

// A long list is added while others take locks all the time, one of them on a name in
// it: the second attempt does not depend on the locks of others.
func TestManyNamesAmongLocks(t *testing.T) {
	w := large(t)
	w.acquire("alice", "other") // the store exists
	attempts := 0
	b := &between{Store: w.mem}
	st := store.New(w.mem)
	var others func()
	others = func() {
		attempts++
		w.acquire("alice", fmt.Sprint("unrelated", attempts))
		if attempts == 1 {
			w.acquire("alice", "n500")
		}
		b.fn = others
	}
	b.fn = others
	list := many(1000, func(i int) task.New { return task.New{Title: fmt.Sprint("n", i)} })
	f := &frugal{Store: b, t: t, only: "lock/", allowed: 1}
	_, err := task.Add(w.ctx, store.New(f), task.AddRequest{Tasks: list})
	w.must(err)
	if attempts < 2 {
		t.Error("nobody was in the way")
	}
	_, err = task.ClaimTasks(w.ctx, st, task.ClaimRequest{Tasks: []string{"t501"}, Acquire: lease.AcquireRequest{Owner: "bob"}})
	if held := as[*lease.HeldError](w, err); held.Key != "n500" {
		t.Errorf("%+v", held)
	}
	w.refused("n500", "bob", "501")
	w.must(w.release("alice", "n500"))
	w.claim("bob", "n500")
	w.claim("bob", "n501")
}

// As many tasks as a lease can have, by names of which each has an older lock
// that is over, need no guard on a whole kind.
func TestGuardsOfNames(t *testing.T) {
	bubble(t, func(w *world) {
		w.mem.asleep = true
		names := strings.Fields("a b c d e f g h i j k l m n o p")[:lease.MaxKeys]
		for _, n := range names {
			w.acquire("old", n)
		}
		for _, n := range names {
			w.add(task.New{Title: n})
		}
		time.Sleep(2 * time.Hour)
		f := &frugal{Store: w.mem, t: t}
		st := store.New(f)
		_, err := lease.Acquire(w.ctx, st, lease.AcquireRequest{Owner: "new", Keys: names, OuterKey: task.OuterKey})
		w.must(err)
		_, err = lease.Renew(w.ctx, st, lease.RenewRequest{Owner: "new", Keys: names})
		w.must(err)
		_, err = lease.Release(w.ctx, st, lease.ReleaseRequest{Owner: "new", Keys: names})
		w.must(err)
		t.Logf("%d guards at most", f.most)
	})
}

// counting counts the records that are read.
type counting struct {
	driver.Store
	asked, got, ranges int
}

func (c *counting) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	snap, err := c.Store.Read(ctx, q)
	c.asked, c.got, c.ranges = c.asked+len(q.Keys), c.got+len(snap.Records), c.ranges+len(q.Ranges)
	return snap, err
}

// However many tasks there are, a lock reads a handful of records.
func TestALockReadsNoList(t *testing.T) {
	w := large(t)
	for i := range 3 {
		w.add(many(1000, func(n int) task.New { return task.New{Title: fmt.Sprintf("task %d.%d", i, n)} })...)
	}
	c := &counting{Store: w.mem}
	st := store.New(c)
	for _, key := range []string{"plain", "t17", "18", "task 1.19"} {
		*c = counting{Store: w.mem}
		_, err := lease.Acquire(w.ctx, st, lease.AcquireRequest{Owner: "a", Keys: []string{key}, OuterKey: task.OuterKey})
		w.must(err)
		_, err = lease.Release(w.ctx, st, lease.ReleaseRequest{Owner: "a", Keys: []string{key}})
		w.must(err)
		if c.ranges > 1 || c.asked > 40 || c.got > 24 { // one range is the history's, now and then
			t.Errorf("%s: asked for %d records and %d ranges, got %d", key, c.asked, c.ranges, c.got)
		}
	}
}

// An old store gets the index that it would have if it had always had one.
func TestIndexNames(t *testing.T) {
	w := newWorld(t)
	w.acquire("alice", "deploy")
	w.add(task.New{Title: "deploy"}, task.New{Title: "Fix bug"}, task.New{Title: "Fix bug"}, in("S", "x"), task.New{Title: "x"}, task.New{Title: "section:S"})
	for range 30 { // more at once would be unsure of older locks
		w.add(task.New{Title: "TODO"})
	}
	w.acquire("alice", "x")
	snap, err := w.mem.Read(w.ctx, driver.Query{Ranges: []driver.Range{{}}})
	w.must(err)
	want, old := map[string]any{}, []driver.Record{}
	for _, r := range snap.Records {
		if strings.HasPrefix(r.Key, "name/") {
			want[r.Key] = asJSON(t, r.Value)
		} else {
			old = append(old, r)
		}
	}
	old = append(old, driver.Record{Key: "name/gone", Rev: 1, Value: []byte(`{"tasks":[{"id":"t99"}]}`)}, driver.Record{Key: "task/bad", Rev: 1, Value: []byte(`{`)})
	writes, err := task.IndexNames(old)
	w.must(err)
	got := map[string]any{}
	for _, b := range writes {
		if b.Value == nil {
			equal(w, "deleted", b.Key, "name/gone")
			continue
		}
		got[b.Key] = asJSON(t, b.Value)
	}
	equal(w, "index", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	for key := range want {
		if key != "name/TODO" { // which of them are listed does not matter
			equal(w, key, got[key], want[key])
		}
	}
}

func asJSON(t *testing.T, data []byte) (v any) {
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}
