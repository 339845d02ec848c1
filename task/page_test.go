package task_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// pages reads a list page by page.
func (w *world) pages(r task.ListRequest, between func()) (all []task.Info) {
	w.Helper()
	for {
		out, err := task.List(w.ctx, w.st, r)
		w.must(err)
		if len(out.Tasks) > r.Limit {
			w.Fatalf("%d tasks on a page of %d", len(out.Tasks), r.Limit)
		}
		all = append(all, out.Tasks...)
		if out.Next == "" {
			return all
		}
		if len(out.Tasks) < r.Limit || out.Next <= r.After {
			w.Fatalf("after %q: %d tasks, next %q", r.After, len(out.Tasks), out.Next)
		}
		r.After = out.Next
		between()
	}
}

func (w *world) sameTasks(r task.ListRequest, got, want []task.Info) {
	w.Helper()
	ids := func(list []task.Info) (ids []string) {
		for _, i := range list {
			ids = append(ids, i.ID)
		}
		return ids
	}
	if !slices.Equal(ids(got), ids(want)) {
		w.Fatalf("%+v: %d tasks, want %d\n got %v\nwant %v", r, len(got), len(want), ids(got), ids(want))
	}
	for i := range got {
		equal(w, fmt.Sprintf("%+v", r), got[i], want[i])
	}
}

// Pages join to the list that one view shows, in the order of ids, whichever tasks are
// asked for.
func TestListPages(t *testing.T) {
	w := newWorld(t)
	w.add(in("first", "a1"), in("first", "a2"), in("second", "b1"), in("second", "b2"), in("", "free"), in("", "claimed"), in("", "done"))
	w.add(many(300, func(i int) task.New {
		n := task.New{ID: fmt.Sprint("n", i), Title: strings.Repeat("x", 1+i%7), Section: []string{"", "first", "crowd"}[i%3], Priority: 10 + i%5}
		if i%10 == 0 {
			n.Labels = []string{"red"}
		}
		if i%60 == 0 {
			n.Description = strings.Repeat("long ", 4000)
		}
		return n
	})...)
	_, err := task.SetSection(w.ctx, w.st, task.SectionRequest{Name: "second", On: []string{"first"}})
	w.must(err)
	w.claim("W", "claimed")
	for i := range 40 {
		w.claim(fmt.Sprint("V", i%2), fmt.Sprint("n", 3*i))
	}
	w.must(w.do(task.Complete, "x", 0, "done"))
	for _, r := range []task.ListRequest{
		{}, {Section: "first"}, {Section: "nothing"}, {Label: "red"}, {Ready: true}, {Stalled: true}, {Archived: true}, {Owner: "V1"},
		{Status: []task.Status{task.Completed}}, {Status: []task.Status{task.InProgress, task.Completed}}, {Ready: true, Caller: "V0"},
		{Section: "first", Label: "red"}, {Section: "second", Ready: true}, {Older: time.Nanosecond},
	} {
		whole, err := task.List(w.ctx, w.st, r)
		w.must(err)
		want := slices.SortedFunc(slices.Values(whole.Tasks), func(a, b task.Info) int { return cmp.Compare(a.ID, b.ID) })
		for _, size := range []int{1, 7, 250, 251, 100_000} {
			if r.Limit = size; size > 1 || len(want) < 50 {
				w.sameTasks(r, w.pages(r, func() {}), want)
			}
		}
		after := task.ListRequest{After: "n1", Status: r.Status, Section: r.Section, Label: r.Label, Owner: r.Owner, Ready: r.Ready, Caller: r.Caller, Stalled: r.Stalled, Archived: r.Archived, Older: r.Older}
		got, err := task.List(w.ctx, w.st, after)
		w.must(err)
		w.sameTasks(after, got.Tasks, slices.DeleteFunc(want, func(i task.Info) bool { return i.ID <= "n1" }))
	}
	_, err = task.List(w.ctx, w.st, task.ListRequest{After: "\xff", Limit: 1})
	as[*lease.InvalidError](w, err)
}

// Tasks that stay are on one page each, whoever comes and goes.
func TestListPagesUnderTraffic(t *testing.T) {
	w := newWorld(t)
	w.add(many(60, func(i int) task.New { return task.New{ID: fmt.Sprintf("k%02d", i), Title: "stays"} })...)
	n := 0
	got := w.pages(task.ListRequest{Limit: 4}, func() {
		n++
		w.add(task.New{ID: fmt.Sprintf("k%02dx", n*37%60), Title: "guest"})
		w.claim("W", fmt.Sprintf("k%02d", n*13%60))
	})
	stay := 0
	for i, task := range got {
		if i > 0 && got[i-1].ID >= task.ID {
			t.Errorf("%s after %s", task.ID, got[i-1].ID)
		}
		if task.Title == "stays" {
			stay++
		}
	}
	if stay != 60 {
		t.Errorf("%d of 60 tasks", stay)
	}
}

// A page reads its own tasks, their locks and sections, however many there are.
func TestListReadsItsPage(t *testing.T) {
	const page = 50
	few, many := readsOfAPage(t, 500, page), readsOfAPage(t, 4000, page)
	t.Logf("a page of %d reads %d records among 500 tasks, %d among 4000", page, few, many)
	if many > few || many > 8*page {
		t.Errorf("a page of %d reads %d records among 500 tasks, %d among 4000", page, few, many)
	}
}

func readsOfAPage(t *testing.T, tasks, page int) int64 {
	t.Helper()
	w, count := counted(t, tasks)
	r := task.ListRequest{After: "n10", Limit: page}
	out, err := task.List(w.ctx, w.st, r)
	w.must(err)
	for _, i := range out.Tasks {
		w.claim("W", i.ID)
	}
	count.Take()
	out, err = task.List(w.ctx, w.st, r)
	w.must(err)
	if len(out.Tasks) != page || out.Next == "" {
		t.Errorf("%d tasks, next %q", len(out.Tasks), out.Next)
	}
	return count.Take().Records
}

// Count reads in parts, counts what one view counts, and stops.
func TestCountIsCapped(t *testing.T) {
	w, count := counted(t, 2500)
	for i := range 30 {
		w.claim("W", fmt.Sprint("n", i))
	}
	stats, err := task.Count(w.ctx, w.st)
	w.must(err)
	want := task.Stats{
		Total: 2500, Ready: 2470, Status: map[task.Status]int{task.Pending: 2470, task.InProgress: 30},
		Sections: map[string]map[task.Status]int{"": {task.Pending: 2470, task.InProgress: 30}},
	}
	equal(w, "statistics", stats, want)
	var more []task.New
	for i := 2500; i < task.MaxCounted; i++ {
		if more = append(more, task.New{ID: fmt.Sprint("n", i), Title: "x"}); len(more) == 500 {
			w.add(more...)
			more = nil
		}
	}
	if stats, err = task.Count(w.ctx, w.st); err != nil || stats.Total != task.MaxCounted || stats.Capped {
		t.Errorf("%d tasks, capped %v, %v", stats.Total, stats.Capped, err)
	}
	w.add(task.New{ID: "one-more", Title: "x"})
	w.add(many(500, func(i int) task.New { return task.New{ID: fmt.Sprint("z", i), Title: "x"} })...)
	count.Take()
	stats, err = task.Count(w.ctx, w.st)
	did := count.Take()
	if err != nil || stats.Total != task.MaxCounted || !stats.Capped {
		t.Errorf("%d tasks, capped %v, %v", stats.Total, stats.Capped, err)
	}
	if did.Records > 4*task.MaxCounted {
		t.Errorf("counting reads %+v", did)
	}
}
