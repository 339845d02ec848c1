package task_test

import (
	"fmt"
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/task"
)

// Large numbers: a transaction may read only so often, and write only so much.

func many(n int, each func(i int) task.New) []task.New {
	list := make([]task.New, n)
	for i := range list {
		list[i] = each(i)
	}
	return list
}

func TestThousandTasksAtOnce(t *testing.T) {
	long.NotShort(t)
	w := large(t)
	w.add(task.New{ID: "p", Title: "parent"})
	for name, list := range map[string][]task.New{
		"numbers":  many(1000, func(i int) task.New { return task.New{Title: fmt.Sprint("n", i), Section: "S"} }),
		"names":    many(1000, func(i int) task.New { return in("T", fmt.Sprint("n", i)) }),
		"children": many(500, func(i int) task.New { return task.New{Title: fmt.Sprint("c", i), Parent: "p"} }),
	} {
		if ids := w.add(list...); len(ids) != len(list) {
			t.Errorf("%s: %d of %d added", name, len(ids), len(list))
		}
	}
	_, err := task.Add(w.ctx, w.st, task.AddRequest{Tasks: make([]task.New, 1001)})
	as[*lease.InvalidError](w, err)
	w.claim("A", "t1000")
	w.claim("A", "p_500")
}

func TestChainOfAThousand(t *testing.T) {
	long.NotShort(t)
	w := large(t)
	w.add(many(1000, func(i int) task.New {
		if i == 0 {
			return in("S", "c0")
		}
		return in("S", fmt.Sprint("c", i), fmt.Sprint("c", i-1))
	})...)
	_, err := task.Depends(w.ctx, w.st, task.DependsRequest{Task: "c0", On: []string{"c999"}})
	if cycle := as[*task.CycleError](w, err); len(cycle.IDs) != 1000 {
		t.Errorf("the cycle has %d tasks", len(cycle.IDs))
	}
	ids := w.list(task.ListRequest{})
	w.must(w.do(task.Skip, "A", 0, ids[:300]...))
	done, err := w.reset(task.ResetRequest{Tasks: []string{"c0"}, Cascade: true})
	w.must(err)
	equal(w, "reset", len(done), 1000)
	equal(w, "ready", w.list(task.ListRequest{Ready: true}), []string{"c0"})

	w.add(in("S", "last", "c999"))
	w.unchanged("a cascade that is too large", func() {
		_, err := w.reset(task.ResetRequest{Tasks: []string{"c0"}, Cascade: true, Force: true})
		as[*lease.InvalidError](w, err)
		if want := "reset: would touch 1001 tasks, at most 1000 at once"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	})
}

func TestThreeHundredHeld(t *testing.T) {
	long.NotShort(t)
	w := large(t)
	ids := w.add(many(300, func(i int) task.New { return in("", fmt.Sprint("c", i)) })...)
	for i, id := range ids {
		w.claim(fmt.Sprint("W", i%7), id)
	}
	w.add(in("", "last"))
	before := w.mem.reads.Load()
	w.nextIs("A", "last") // behind 300 that are taken
	if n := w.mem.reads.Load() - before; n > 30 {
		t.Errorf("next read the store %d times", n)
	}
	_, err := w.reset(task.ResetRequest{Tasks: ids})
	if busy := as[*task.BusyError](w, err); len(busy.Holders) != 300 {
		t.Errorf("%d holders", len(busy.Holders))
	}
	_, err = w.reset(task.ResetRequest{Tasks: ids, Force: true})
	w.must(err)
	for _, id := range ids {
		w.claim("A", id)
	}
	w.must(w.do(task.Complete, "A", 0, ids...))
	for _, id := range ids { // someone looks at them again
		w.acquire("A", id)
	}
	w.mem.asleep = false
	_, err = task.Archive(w.ctx, w.st, task.RemoveRequest{Tasks: ids[:150], By: "admin", Force: true})
	w.must(err)
	equal(w, "in the working set", len(w.list(task.ListRequest{})), 151)
	for _, id := range ids[:150] {
		w.acquire("A", id)
	}
	freed, err := task.FreeArchived(w.ctx, w.st, "admin", false)
	w.must(err)
	equal(w, "freed", len(freed), 150)
}

func TestHundredSections(t *testing.T) {
	long.NotShort(t)
	w := large(t)
	for i := range 120 {
		s := fmt.Sprintf("S%03d", i)
		w.add(in(s, fmt.Sprint("c", i)), in(s, fmt.Sprint("d", i)))
		if i > 0 {
			_, err := task.SetSection(w.ctx, w.st, task.SectionRequest{Name: "S000", On: []string{s}})
			w.must(err)
		}
	}
	w.nextIs("A", "c1")
	for i := 2; i < 120; i++ {
		w.nextIs(fmt.Sprint("W", i), fmt.Sprint("c", i))
	}
	w.nextIs("B", "")
	w.nextIs("A", "d1")
	for i := range 120 { // and each waits for one of its own
		s := fmt.Sprintf("T%03d", i)
		w.must(w.section(task.SectionRequest{Name: s, New: true, On: []string{fmt.Sprintf("S%03d", i)}}))
	}
	before := w.mem.reads.Load()
	equal(w, "tasks", len(w.list(task.ListRequest{})), 240)
	if n := w.mem.reads.Load() - before; n > 5 {
		t.Errorf("list read the store %d times", n)
	}
	all, err := task.Sections(w.ctx, w.st, "")
	w.must(err)
	equal(w, "sections", len(all.Sections), 240)
	equal(w, "S000 waits for", len(all.Sections[0].WaitsFor), 119)
	_, err = task.SetSection(w.ctx, w.st, task.SectionRequest{Name: "S119", On: []string{"S000"}})
	as[*task.CycleError](w, err)
}

// Names that are not ids cost reads of their own, together and not each.
func TestThreeHundredTitles(t *testing.T) {
	w := large(t)
	w.add(many(400, func(i int) task.New { return task.New{Title: fmt.Sprint("Title ", i), Section: "S"} })...)
	titles := make([]string, 300)
	for i := range titles {
		titles[i] = fmt.Sprint("title ", i)
	}
	found, err := task.Find(w.ctx, w.st, titles)
	w.must(err)
	equal(w, "found", len(found), 300)
	w.must(w.do(task.Skip, "A", 0, titles...))
	equal(w, "left", len(w.list(task.ListRequest{Ready: true})), 100)
}
