package task_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

func (w *world) section(r task.SectionRequest) error {
	r.By = "test"
	_, err := task.SetSection(w.ctx, w.st, r)
	return err
}

func (w *world) move(id, section string) error {
	_, err := task.Edit(w.ctx, w.st, task.EditRequest{Task: id, Owner: "B", Section: &section})
	return err
}

func TestSharedSection(t *testing.T) {
	w := newWorld(t)
	w.must(w.section(task.SectionRequest{Name: "S", New: true, Shared: ptr(true)}))
	w.add(in("S", "a"), in("S", "b"))
	w.claim("A", "a")
	w.nextIs("B", "b")
	w.holds("a A", "b B")
	w.unchanged("making it exclusive", func() {
		busy := as[*task.BusyError](w, w.section(task.SectionRequest{Name: "S", Shared: ptr(false)}))
		if busy.Holders[0].Owner != "A" {
			t.Errorf("%v", busy)
		}
	})
	w.must(w.do(task.Complete, "B", 0, "b"))
	w.must(w.do(task.Unclaim, "A", 0, "a"))
	w.must(w.section(task.SectionRequest{Name: "S", Shared: ptr(false)}))
	w.claim("A", "a")
	w.unchanged("making it shared", func() {
		as[*task.StateError](w, w.section(task.SectionRequest{Name: "S", Shared: ptr(true)}))
	})
}

// A task that is locked when it gets into an exclusive section would stand
// beside the section's lock.
func TestNobodyEntersWithALock(t *testing.T) {
	bubble(t, func(w *world) {
		w.acquire("A", "a") // there is no such task yet
		w.add(in("S", "b"))
		w.unchanged("an add", func() {
			_, err := task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{in("S", "a")}})
			as[*task.BusyError](w, err)
		})
		w.add(in("", "c"))
		w.acquire("A", "c")
		w.unchanged("a move", func() {
			as[*lease.OwnerError](w, w.move("c", "S"))
			as[*task.StateError](w, func() error {
				_, err := task.Edit(w.ctx, w.st, task.EditRequest{Task: "c", Owner: "A", Section: ptr("S")})
				return err
			}())
		})
		time.Sleep(2 * time.Hour) // what is over ends for good: no late renewal
		w.must(w.move("c", "S"))
		w.want(w.renew("A", "c"), lease.ErrLost)
		w.add(in("S", "a"))
		w.want(w.renew("A", "a"), lease.ErrLost)

		w.claim("A", "a")
		time.Sleep(3 * time.Hour)
		w.must(w.move("a", "T"))
		w.want(w.renew("A", "a"), lease.ErrLost)
	})
	bubble(t, func(w *world) {
		w.must(w.section(task.SectionRequest{Name: "S", New: true, Shared: ptr(true)}))
		w.add(in("S", "a"))
		w.claim("A", "a")
		time.Sleep(2 * time.Hour)
		w.must(w.section(task.SectionRequest{Name: "S", Shared: ptr(false)}))
		w.want(w.renew("A", "a"), lease.ErrLost)
	})
}

func TestSkippedAndWaitingSections(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("T", "b"), in("T", "c"))
	w.must(w.section(task.SectionRequest{Name: "S", On: []string{"T"}}))
	_, err := w.tryClaim("A", "a")
	as[*task.StateError](w, err)
	w.nextIs("A", "b")
	w.must(w.do(task.Complete, "A", 0, "b"))
	w.must(w.do(task.Block, "A", 0, "c")) // still open
	w.nextIs("A", "")
	w.must(w.do(task.Complete, "A", 0, "c"))
	w.must(w.section(task.SectionRequest{Name: "S", Skipped: ptr(true)}))
	w.nextIs("A", "")
	_, err = w.tryClaim("A", "a")
	as[*task.StateError](w, err)
	w.must(w.section(task.SectionRequest{Name: "S", Skipped: ptr(false)}))
	w.nextIs("A", "a")

	w.unchanged("a cycle", func() {
		cycle := as[*task.CycleError](w, w.section(task.SectionRequest{Name: "T", On: []string{"S"}}))
		equal(w, "cycle", cycle.IDs, []string{"T", "S"})
		as[*task.CycleError](w, w.section(task.SectionRequest{Name: "T", On: []string{"T"}}))
		as[*task.NotFoundError](w, w.section(task.SectionRequest{Name: "T", On: []string{"none"}}))
		as[*task.NotFoundError](w, w.section(task.SectionRequest{Name: "none"}))
		as[*task.StateError](w, w.section(task.SectionRequest{Name: "T", New: true}))
	})
	w.must(w.section(task.SectionRequest{Name: "S", Off: []string{"T"}}))
	w.must(w.section(task.SectionRequest{Name: "T", On: []string{"S"}}))
}

func TestDeleteSection(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"))
	w.must(w.section(task.SectionRequest{Name: "T", New: true, On: []string{"S"}}))
	drop := func(name string) error { return task.DeleteSection(w.ctx, w.st, name, "test", false) }
	w.unchanged("a delete", func() {
		as[*task.StateError](w, drop("S"))
		as[*task.NotFoundError](w, drop("none"))
	})
	w.must(w.do(task.Complete, "A", 0, "a"))
	as[*task.StateError](w, drop("S")) // it is there still
	w.must(archive(w, "a"))
	as[*task.StateError](w, drop("S")) // T depends on it
	w.must(drop("T"))
	w.must(drop("S"))
	out, err := task.Sections(w.ctx, w.st, "")
	w.must(err)
	equal(w, "sections", len(out.Sections), 0)
}

// One name has one spelling: a lock on it is a lock on it.
func TestSectionNamesAreNormalised(t *testing.T) {
	const composed, apart = "\u00fcben", "u\u0308ben"
	w := newWorld(t)
	w.add(in(apart, "a"), in(composed, "b"))
	w.claim("A", "a")
	w.refused("section:"+composed, "B", "section:"+apart)
	w.refused("section:"+composed, "B", "b")
	equal(w, "list", w.list(task.ListRequest{Section: apart}), []string{"a", "b"})
	out, err := task.Sections(w.ctx, w.st, apart)
	w.must(err)
	equal(w, "locked by", out.Sections[0].LockedBy, "A")
	_, err = task.Next(w.ctx, w.st, task.NextRequest{Section: apart, Acquire: lease.AcquireRequest{Owner: "A"}})
	w.must(err)
	w.must(w.section(task.SectionRequest{Name: apart, Priority: ptr(1)}))
}

// A task comes into a shared section, and is claimed there, while the section is
// made exclusive: it must not stay held beside the section.
func TestExclusiveWhileATaskComes(t *testing.T) {
	for name, come := range map[string]func(w *world){
		"added": func(w *world) { w.add(in("S", "late")) },
		"moved": func(w *world) {
			w.must(w.move("old", "S"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.section(task.SectionRequest{Name: "S", New: true, Shared: ptr(true)}))
			w.add(in("S", "first"), in("", "old"))
			w.must(w.do(task.Skip, "A", 0, "old"))
			once := false
			w.mem.before = func(b driver.Batch) {
				if strings.Contains(b.Note, "section changed") && !once {
					once = true
					come(w)
					w.acquire("A", map[string]string{"added": "late", "moved": "old"}[name])
				}
			}
			err := w.section(task.SectionRequest{Name: "S", Shared: ptr(false)})
			if busy := as[*task.BusyError](w, err); busy.Holders[0].Owner != "A" {
				t.Errorf("%+v", busy)
			}
		})
	}
}
