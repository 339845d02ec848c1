package task_test

import (
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// Archive frees the lock of what it archives, and of nothing else.
func TestArchiveFreesItsOwn(t *testing.T) {
	w := newWorld(t)
	w.add(task.New{ID: "t16", Title: "parent"}, task.New{Title: "child", Parent: "t16"}, task.New{Title: "child", Parent: "t16"}, task.New{ID: "t160", Title: "other"})
	w.must(w.do(task.Complete, "A", 0, "t16"))
	w.acquire("A", "t16", "t16_1")
	w.claim("B", "t16_2")
	w.claim("B", "t160")
	w.unchanged("an archive of what is open", func() { as[*task.StateError](w, archive(w, "t16_2")) })
	_, err := task.Archive(w.ctx, w.st, task.RemoveRequest{Tasks: []string{"t16"}, By: "A"})
	w.must(err)
	w.holds("t16_1 A", "t16_2 B", "t160 B")

	w.acquire("A", "t16")
	for _, dry := range []bool{true, false} {
		freed, err := task.FreeArchived(w.ctx, w.st, "admin", dry)
		w.must(err)
		equal(w, "freed", freed, []string{"t16"})
	}
	w.holds("t16_1 A", "t16_2 B", "t160 B")
	freed, err := task.FreeArchived(w.ctx, w.st, "admin", false)
	w.must(err)
	equal(w, "freed", len(freed), 0)
}

func TestArchived(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "parse"), in("S", "parse-tokens"), in("", "z"))
	w.must(w.do(task.Complete, "A", 0, "parse"))
	w.must(w.do(task.Fail, "A", 0, "z"))
	out, err := task.Archive(w.ctx, w.st, task.RemoveRequest{Closed: true})
	w.must(err)
	equal(w, "archived", len(out.Tasks), 2)
	w.unchanged("a verb on what is archived", func() { // it is not the beginning of another
		as[*task.NotFoundError](w, w.do(task.Complete, "A", 0, "parse"))
		as[*task.NotFoundError](w, del(w, "parse"))
		_, err := task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{in("", "parse")}})
		as[*task.StateError](w, err)
	})
	w.status("parse", task.Completed)
	equal(w, "the archive", w.list(task.ListRequest{Archived: true}), []string{"z", "parse"})
	equal(w, "the working set", w.list(task.ListRequest{}), []string{"parse-tokens"})
	w.status("parse-", task.Pending)
}

func TestDeleteWhatIsHeld(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"))
	w.claim("A", "a")
	w.unchanged("a delete", func() { as[*task.BusyError](w, del(w, "a")) })
	w.breakKey("a")
	w.must(del(w, "a"))
	w.holds()
}

// Numbers are given out once, whatever becomes of the task.
func TestNumbersAreNeverGivenTwice(t *testing.T) {
	w := newWorld(t)
	one := func(n task.New) string { return w.add(n)[0] }
	child := task.New{Title: "x", Parent: "t2"}
	plain := task.New{Title: "x"}
	equal(w, "ids", []string{one(plain), one(plain), one(child), one(child)}, []string{"t1", "t2", "t2_1", "t2_2"})
	w.must(del(w, "t2_2"))
	w.must(w.do(task.Complete, "A", 0, "t1", "t2_1"))
	w.must(archive(w, "t1", "t2_1"))
	equal(w, "ids", []string{one(plain), one(child)}, []string{"t3", "t2_3"})
	equal(w, "a child's child", one(task.New{Title: "x", Parent: "2_3"}), "t2_3_1")

	// One that was named by hand is used up too, also when it is gone.
	w.add(task.New{ID: "t7", Title: "x"}, task.New{ID: "t2_9", Title: "x"}, task.New{ID: "task", Title: "x"})
	w.must(del(w, "t7", "t2_9"))
	equal(w, "ids", []string{one(plain), one(child)}, []string{"t8", "t2_10"})
	equal(w, "a task called task", one(task.New{Title: "x", Parent: "task"}), "task_1")
	equal(w, "ids", one(plain), "t9")

	n, err := task.PeekNumber(w.ctx, w.st)
	w.must(err)
	equal(w, "peek", n, 10)
	n, err = task.NextNumber(w.ctx, w.st, false)
	w.must(err)
	equal(w, "next", n, 10)
	for _, lost := range []bool{false, true} { // a counter that is gone is found again; it never goes down
		if lost {
			w.mem.asleep = true
			w.drop("counter/task")
		}
		n, err = task.Resync(w.ctx, w.st, false)
		w.must(err)
		if want := map[bool]int64{false: 11, true: 10}[lost]; n != want {
			t.Errorf("resync: %d, want %d", n, want)
		}
	}
	w.mem.asleep = false
	equal(w, "ids", one(plain), "t10")
	_, err = task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{{ID: "t3", Title: "again"}}})
	as[*task.StateError](w, err)
}

func TestNamesOfTasks(t *testing.T) {
	w := newWorld(t)
	w.add(task.New{Title: "Fix bug"}, task.New{Title: "fix bug", ID: "1.0-parse-tokens"}, task.New{Title: "t1", ID: "other"},
		task.New{Title: "a/b", ID: "deep/er"}, task.New{Title: "x", ID: "t10"})
	for ref, want := range map[string]string{
		"t1": "t1", "1": "t1", "Fix bug": "t1", "fix bug": "1.0-parse-tokens", "1.0": "1.0-parse-tokens",
		"deep": "deep/er", "a/b": "deep/er", "othe": "other", "10": "t10",
	} {
		if got := w.show(ref).ID; got != want {
			t.Errorf("%q is %s, want %s", ref, got, want)
		}
	}
	for _, ref := range []string{"", "zzz", "*", "t", "../x", "section:S", "FIX BUG"} {
		_, err := task.Show(w.ctx, w.st, ref)
		if err == nil {
			t.Errorf("%q is something", ref)
		}
	}
	_, err := task.Show(w.ctx, w.st, "FIX BUG")
	equal(w, "matches", len(as[*task.AmbiguousError](w, err).Matches), 2)

	// An id comes before a title, also among what is added at once.
	w.add(task.New{ID: "x", Title: "y"}, task.New{ID: "y", Title: "x"}, task.New{ID: "z", Title: "z", DependsOn: []string{"y"}})
	equal(w, "depends on", w.show("z").DependsOn, []string{"y"})
	_, err = task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{{Title: "x", Parent: "none"}}})
	as[*task.NotFoundError](w, err)
	long := strings.Repeat("x", 511) // no child has room behind it
	w.add(task.New{ID: long, Title: "long"})
	_, err = task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{{Title: "x", Parent: long}}})
	as[*lease.InvalidError](w, err)
}

// A closed task may have been locked again: archiving it frees nobody's lock but
// the caller's own.
func TestArchiveOfWhatIsHeld(t *testing.T) {
	w := newWorld(t)
	ids := w.add(in("S", "a"), in("S", "b"))
	w.claim("A", ids...)
	w.must(w.do(task.Complete, "A", 0, ids...))
	w.acquire("bob", ids[0])
	_, err := task.Archive(w.ctx, w.st, task.RemoveRequest{Tasks: ids, By: "admin"})
	if busy := as[*task.BusyError](w, err); busy.Holders[0].Owner != "bob" {
		t.Errorf("%+v", busy)
	}
	out, err := task.Archive(w.ctx, w.st, task.RemoveRequest{Closed: true, By: "admin"})
	w.must(err)
	if len(out.Tasks) != 1 || out.Tasks[0].ID != ids[1] {
		t.Errorf("archived %+v", out.Tasks)
	}
	_, err = task.Archive(w.ctx, w.st, task.RemoveRequest{Tasks: ids[:1], By: "bob"})
	w.must(err)

	ids = w.add(in("S", "c"))
	w.must(w.do(task.Skip, "A", 0, ids...))
	w.acquire("bob", ids[0])
	_, err = task.Archive(w.ctx, w.st, task.RemoveRequest{Tasks: ids, By: "admin", Force: true})
	w.must(err)
}
