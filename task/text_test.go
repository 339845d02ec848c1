package task_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

func much(c string) string { return strings.Repeat(c, 30<<10) }

func (w *world) text(id string) string {
	w.Helper()
	i, err := task.Show(w.ctx, w.st, id)
	w.must(err)
	return i.Description
}

func (w *world) has(key string) bool { _, ok := w.mem.dump()[key]; return ok }

// Forty tasks with long descriptions wait for one: it can be completed.
func TestCompletionWithLongDependents(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "hub"))
	for i := range 40 {
		n := in("S", fmt.Sprint("d", i), "hub")
		n.Description = much("x")
		w.add(n)
	}
	w.claim("A", "hub")
	w.must(w.do(task.Complete, "A", 0, "hub"))
	equal(w, "ready", len(w.list(task.ListRequest{Ready: true})), 40)
	equal(w, "text", w.text("d7"), much("x"))
}

// The same, of tasks that an earlier version wrote: text and task in one record.
func TestCompletionWithOldLongDependents(t *testing.T) {
	w := newWorld(t)
	w.mem.asleep = true
	w.add(in("S", "hub"))
	for i := range 40 {
		id := fmt.Sprint("d", i)
		w.add(in("S", id, "hub"))
		snap, err := w.mem.Read(w.ctx, driver.Query{Keys: []string{"task/" + id}})
		w.must(err)
		var rec map[string]any
		w.must(json.Unmarshal(snap.Records[0].Value, &rec))
		rec["description"] = much("y")
		data, err := json.Marshal(rec)
		w.must(err)
		_, err = w.mem.Commit(w.ctx, driver.Batch{Writes: []driver.Write{{Key: "task/" + id, Value: data}}})
		w.must(err)
	}
	equal(w, "text before", w.text("d7"), much("y"))
	w.claim("A", "hub")
	w.must(w.do(task.Complete, "A", 0, "hub"))
	equal(w, "ready", len(w.list(task.ListRequest{Ready: true})), 40)
	equal(w, "text", w.text("d7"), much("y"))
}

// A long text follows its task wherever that is shown, and goes with it.
func TestLongText(t *testing.T) {
	w := newWorld(t)
	n := in("S", "a")
	n.Description = much("x")
	w.add(n, in("S", "b"))
	if !w.has("text/a") || strings.Contains(w.mem.dump()["task/a"], "xxx") {
		t.Error("the text is in the task's record")
	}
	out, err := task.Next(w.ctx, w.st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: "A"}})
	w.must(err)
	equal(w, "text of the claim", out.Task.Description, much("x"))
	did, err := task.ChangeStatus(w.ctx, w.st, task.StatusRequest{Verb: task.Complete, Tasks: []string{"a"}, Owner: "A"})
	w.must(err)
	equal(w, "text of the completion", did.Tasks[0].Description, much("x"))
	all, err := task.List(w.ctx, w.st, task.ListRequest{})
	w.must(err)
	equal(w, "text in the list", all.Tasks[0].Description, much("x"))

	var file bytes.Buffer
	w.must(task.Export(w.ctx, w.st, &file, "json"))
	other := store.New(memstore.New())
	_, err = task.Import(w.ctx, other, task.ImportRequest{Data: file.Bytes(), By: "A"})
	w.must(err)
	i, err := task.Show(w.ctx, other, "a")
	w.must(err)
	equal(w, "text of the copy", i.Description, much("x"))

	edit := func(id, text string) {
		_, err := task.Edit(w.ctx, w.st, task.EditRequest{Task: id, Owner: "A", Description: &text})
		w.must(err)
		equal(w, "edited", w.text(id), text)
	}
	edit("b", much("z"))
	_, err = task.Edit(w.ctx, w.st, task.EditRequest{Task: "b", Owner: "A", Title: ptr("other")})
	w.must(err)
	equal(w, "text that stays", w.text("b"), much("z"))
	edit("b", "short")
	equal(w, "text record", w.has("text/b"), false)
	edit("b", much("z"))
	edit("b", "")
	equal(w, "text record", w.has("text/b"), false)
	edit("b", much("z"))
	w.must(del(w, "b"))
	equal(w, "text record", w.has("text/b"), false)
	w.must(archive(w, "a"))
	equal(w, "archived text", w.text("a"), much("x"))
}

// What could not be completed later is refused when it is added.
func TestBoundsOfACompletion(t *testing.T) {
	w := newWorld(t)
	w.add(in("", "hub"))
	section, id := strings.Repeat("s", 450), strings.Repeat("i", 451)
	w.unchanged("an id and a section that are too long", func() {
		_, err := task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{in(section, id, "hub")}})
		as[*lease.InvalidError](w, err)
	})
	w.add(in(section, id[:450], "hub"))
	w.add(in("", id[:451]))
	as[*lease.InvalidError](w, w.move(id[:451], section))

	w.mem.asleep = true
	labels := []string{}
	for i := range task.MaxLabels {
		labels = append(labels, fmt.Sprint(i, strings.Repeat("l", 90)))
	}
	refused := false
	for i := range 400 {
		n := in("", fmt.Sprint("d", i), "hub")
		n.Labels = labels
		if _, err := task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{n}}); err != nil {
			as[*lease.InvalidError](w, err)
			refused = true
			break
		}
	}
	if !refused {
		t.Error("400 tasks of 5 KB depend on one")
	}
	w.must(w.do(task.Complete, "A", 0, "hub"))
}
