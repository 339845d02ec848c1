package task_test

import (
	"testing"

	"github.com/tasklock/tasklock/task"
)

func (w *world) depends(id string, on ...string) error {
	_, err := task.Depends(w.ctx, w.st, task.DependsRequest{Task: id, On: on, By: "test"})
	return err
}

func (w *world) ready(want ...string) {
	w.Helper()
	equal(w, "ready", w.list(task.ListRequest{Ready: true}), want)
}

func TestReadiness(t *testing.T) {
	w := newWorld(t)
	w.add(in("", "a"), in("", "b"), in("", "c", "a", "b"), in("", "d", "c"))
	w.ready("a", "b")
	_, err := w.tryClaim("A", "c")
	equal(w, "waits for", as[*task.StateError](w, err).WaitsFor, []string{"a", "b"})
	w.must(w.do(task.Complete, "A", 0, "a"))
	w.ready("b")
	w.must(w.do(task.Fail, "A", 0, "b")) // not done
	w.ready()
	w.must(w.do(task.Skip, "A", 0, "b")) // done in its way
	w.ready("c")
	w.must(w.do(task.Block, "A", 0, "c"))
	w.ready()
	w.must(w.do(task.Unblock, "A", 0, "c"))
	w.ready("c")
	w.must(w.do(task.Complete, "A", 0, "c"))
	w.ready("d")
	w.must(w.do(task.Complete, "A", 0, "d"))

	// What was done is undone: what depends on it waits again, done or not.
	_, err = w.reset(task.ResetRequest{Tasks: []string{"a"}})
	w.must(err)
	w.ready("a")
	equal(w, "c waits for", w.show("c").WaitsFor, []string{"a"})
	w.status("c", task.Completed)
	w.must(w.do(task.Complete, "A", 0, "a"))
	equal(w, "c waits for", len(w.show("c").WaitsFor), 0)
}

func TestDependenciesComeAndGo(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("S", "b"))
	w.must(w.depends("b", "a", "a"))
	w.must(w.depends("b", "a"))
	equal(w, "depends on", w.show("b").DependsOn, []string{"a"})
	equal(w, "dependents", w.show("a").Dependents, []string{"b"})
	w.ready("a")
	off := func(id string, ref ...string) error {
		_, err := task.Depends(w.ctx, w.st, task.DependsRequest{Task: id, Off: ref})
		return err
	}
	w.must(off("b", "title of a"))
	w.ready("a", "b")
	w.must(off("b", "a")) // it does not
	as[*task.NotFoundError](w, off("b", "nothing"))
	as[*task.NotFoundError](w, w.depends("b", "nothing"))

	w.claim("A", "b") // a dependency that comes while someone works does not stop him
	w.must(w.depends("b", "a"))
	w.must(w.do(task.Complete, "A", 0, "b"))
}

func TestCyclesAreNamed(t *testing.T) {
	w := newWorld(t)
	w.add(in("", "a"), in("", "b", "a"), in("", "c", "b"), in("", "d", "b", "a"))
	for _, c := range []struct{ id, on, want string }{
		{"a", "a", "would depend on itself: a → a"},
		{"a", "b", "would depend on itself: a → b → a"},
		{"a", "c", "would depend on itself: a → c → b → a"},
		{"b", "d", "would depend on itself: b → d → b"},
	} {
		w.unchanged("a cycle", func() {
			if err := w.depends(c.id, c.on); as[*task.CycleError](w, err).Error() != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	w.must(w.depends("d", "c")) // a diamond is none
	w.unchanged("new ones that depend on themselves", func() {
		_, err := task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{in("", "x", "x")}})
		if err == nil {
			t.Error("added")
		}
	})
	_, err := task.Depends(w.ctx, w.st, task.DependsRequest{Task: "a", On: []string{"b"}, Off: []string{"b"}})
	as[*task.CycleError](w, err)
	w.must(func() error { // turned round in one step
		_, err := task.Depends(w.ctx, w.st, task.DependsRequest{Task: "c", Off: []string{"b"}})
		return err
	}())
	w.must(w.depends("b", "c"))
}

func TestWhoDependsOnWhatLeaves(t *testing.T) {
	w := newWorld(t)
	w.add(in("", "a"), in("", "b", "a"), in("", "c", "b"))
	remove := func(verb func(*world, ...string) error, ids ...string) error { return verb(w, ids...) }
	w.unchanged("a delete", func() { as[*task.StateError](w, remove(del, "a")) })
	w.must(remove(del, "c"))
	equal(w, "dependents", len(w.show("b").Dependents), 0)
	w.must(w.do(task.Complete, "A", 0, "a"))
	w.must(remove(archive, "a")) // done stays done
	w.ready("b")
	w.must(w.do(task.Unclaim, "A", w.claim("A", "b"), "b"))

	// Nobody may wait for what is not there any more.
	w.add(in("", "d", "b"))
	w.must(w.do(task.Fail, "A", 0, "b"))
	w.unchanged("an archive", func() { as[*task.StateError](w, remove(archive, "b")) })
	out, err := task.Archive(w.ctx, w.st, task.RemoveRequest{Closed: true})
	w.must(err)
	equal(w, "archived", len(out.Tasks), 0)
	w.must(w.do(task.Fail, "A", 0, "d"))
	w.must(remove(archive, "b", "d"))

	w.add(in("", "v"), in("", "w", "v"))
	w.must(w.do(task.Skip, "A", 0, "w"))
	w.must(remove(archive, "w"))
	w.must(remove(del, "v")) // what is archived does not keep it

	w.add(in("", "x"), in("", "y", "x"))
	w.must(remove(del, "x", "y")) // together they may go
	equal(w, "left", len(w.list(task.ListRequest{})), 0)
}

func del(w *world, ids ...string) error {
	_, err := task.Delete(w.ctx, w.st, task.RemoveRequest{Tasks: ids, By: "test"})
	return err
}

func archive(w *world, ids ...string) error {
	_, err := task.Archive(w.ctx, w.st, task.RemoveRequest{Tasks: ids, By: "test"})
	return err
}
