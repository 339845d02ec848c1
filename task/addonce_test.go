package task_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

func (w *world) addOnce(r task.AddRequest) task.AddResult {
	w.Helper()
	out, err := task.Add(w.ctx, w.st, r)
	w.must(err)
	return out
}

// count is how many tasks there are.
func (w *world) count() int {
	w.Helper()
	out, err := task.List(w.ctx, w.st, task.ListRequest{})
	w.must(err)
	return len(out.Tasks)
}

func TestAddRepeated(t *testing.T) {
	bubble(t, func(w *world) {
		long := strings.Repeat("long ", 1000)
		r := task.AddRequest{By: "alice", ID: "req-1", Tasks: []task.New{
			{Title: "one", Section: "S", Labels: []string{"a"}}, {Title: "two", DependsOn: []string{"one"}, Description: long},
		}}
		first := w.addOnce(r)
		again := w.addOnce(r)
		if !again.Repeated || first.Repeated {
			t.Errorf("repeated: first %t, again %t", first.Repeated, again.Repeated)
		}
		again.Repeated = false
		equal(w, "the same result", again.Sections, first.Sections)
		for i := range first.Tasks {
			equal(w, "id", again.Tasks[i].ID, first.Tasks[i].ID)
			equal(w, "text", again.Tasks[i].Description, first.Tasks[i].Description)
		}
		equal(w, "tasks", w.count(), 2)

		// The defaults are the same content as what they stand for.
		same := r
		same.Tasks = []task.New{r.Tasks[0], r.Tasks[1]}
		same.Tasks[0].Title, same.Tasks[0].Priority = " one ", task.Medium
		equal(w, "repeated", w.addOnce(same).Repeated, true)

		for what, change := range map[string]func(*task.New){
			"title":    func(n *task.New) { n.Title = "other" },
			"section":  func(n *task.New) { n.Section = "T" },
			"parent":   func(n *task.New) { n.Parent = first.Tasks[0].ID },
			"label":    func(n *task.New) { n.Labels = nil },
			"priority": func(n *task.New) { n.Priority = task.High },
		} {
			other := r
			other.Tasks = []task.New{r.Tasks[0], r.Tasks[1]}
			change(&other.Tasks[0])
			if _, err := task.Add(w.ctx, w.st, other); err == nil {
				t.Errorf("the same id with another %s was accepted", what)
			} else {
				as[*lease.ReusedError](w, err)
			}
		}
		equal(w, "tasks", w.count(), 2)

		// Someone else may use the same id.
		bob := task.AddRequest{By: "bob", ID: "req-1", Tasks: []task.New{{Title: "of bob"}}}
		equal(w, "repeated", w.addOnce(bob).Repeated, false)
		_, err := task.Add(w.ctx, w.st, task.AddRequest{By: "bob", ID: "a/b", Tasks: bob.Tasks})
		as[*lease.InvalidError](w, err)
	})
}

// What became of the tasks does not matter: the request has had its one effect.
func TestAddRepeatedLater(t *testing.T) {
	bubble(t, func(w *world) {
		r := task.AddRequest{By: "alice", ID: "req-1", Tasks: []task.New{{Title: "one"}, {Title: "two"}, {Title: "three"}}}
		ids := w.addOnce(r).Tasks
		w.must(w.do(task.Complete, "alice", 0, ids[0].ID))
		_, err := task.Archive(w.ctx, w.st, task.RemoveRequest{Tasks: []string{ids[0].ID}, By: "alice"})
		w.must(err)
		_, err = task.Delete(w.ctx, w.st, task.RemoveRequest{Tasks: []string{ids[1].ID}, By: "alice"})
		w.must(err)
		again := w.addOnce(r)
		for i, want := range []task.Status{task.Completed, "", task.Pending} {
			if got := again.Tasks[i]; got.ID != ids[i].ID || got.Title != ids[i].Title || got.Status != want {
				t.Errorf("%+v after %+v", got, ids[i])
			}
		}
	})
}

// One id stands for one request, whatever its verb.
func TestAddWithTheIDOfAnotherRequest(t *testing.T) {
	bubble(t, func(w *world) {
		_, err := w.tryAcquire(lease.AcquireRequest{Owner: "alice", Keys: []string{"k"}, ID: "held"})
		w.must(err)
		add := task.AddRequest{By: "alice", ID: "held", Tasks: []task.New{{Title: "one"}}}
		_, err = task.Add(w.ctx, w.st, add)
		as[*lease.ReusedError](w, err)
		w.must(w.release("alice", "k"))
		_, err = task.Add(w.ctx, w.st, add)
		as[*lease.ReusedError](w, err)

		add.ID = "added"
		w.addOnce(add)
		_, err = w.tryAcquire(lease.AcquireRequest{Owner: "alice", Keys: []string{"k"}, ID: "added"})
		as[*lease.ReusedError](w, err)
		_, err = task.Next(w.ctx, w.st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: "alice", ID: "added"}})
		as[*lease.ReusedError](w, err)
		_, err = task.Import(w.ctx, w.st, task.ImportRequest{By: "alice", ID: "added", Data: []byte("- [ ] one"), Format: "markdown"})
		as[*lease.ReusedError](w, err)
	})
}

func TestImportRepeated(t *testing.T) {
	bubble(t, func(w *world) {
		r := task.ImportRequest{By: "alice", ID: "req-1", Data: []byte("# S\n- [ ] one\n- [x] two\n"), Format: "markdown"}
		first, err := task.Import(w.ctx, w.st, r)
		w.must(err)
		again, err := task.Import(w.ctx, w.st, r)
		w.must(err)
		equal(w, "repeated", again.Repeated, true)
		for i := range first.Tasks {
			equal(w, "id", again.Tasks[i].ID, first.Tasks[i].ID)
		}
		equal(w, "tasks", w.count(), 2)
		r.Data = []byte("# S\n- [ ] one\n- [ ] two\n")
		_, err = task.Import(w.ctx, w.st, r)
		as[*lease.ReusedError](w, err)
	})
}

// Sixteen processes that send one request at once add one task, and all of them
// answer with it.
func TestAddOnceRaced(t *testing.T) {
	const callers, rounds = 16, 20
	w, mem := &world{T: t, ctx: t.Context()}, memstore.New()
	w.st = store.New(mem)
	in := &abreast{Store: mem}
	for round := range rounds {
		var got [callers]string
		in.race(callers, func(i int) {
			st := store.New(in) // a process of its own
			out, err := task.Add(w.ctx, st, task.AddRequest{By: "alice", ID: fmt.Sprint("r", round), Tasks: []task.New{{Title: fmt.Sprint("task ", round)}}})
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = out.Tasks[0].ID
		})
		for i, id := range got {
			if id != got[0] {
				t.Errorf("round %d: caller %d got %s, caller 0 got %s", round, i, id, got[0])
			}
		}
		if n := w.count(); n != round+1 {
			t.Fatalf("%d tasks after %d requests", n, round+1)
		}
	}
}

// A caller that learns nothing sends its request again, as another process: the
// request adds one task, even if the first commit arrives late.
func TestAddAfterACutConnection(t *testing.T) {
	for name, applied := range map[string]bool{"before the commit": false, "after the commit": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				r := task.AddRequest{By: "alice", ID: "req-1", Tasks: []task.New{{Title: "one"}}}
				cut := &drivertest.Cut{Store: w.mem, Applied: applied}
				ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
				defer cancel()
				_, err := task.Add(ctx, store.New(cut), r)
				w.want(err, store.ErrUnknown)
				out := w.addOnce(r)
				equal(w, "repeated", out.Repeated, applied)
				if _, err := w.mem.Commit(w.ctx, *cut.Sent); err == nil {
					t.Error("a commit that arrives late has a second effect")
				}
				equal(w, "tasks", w.count(), 1)
				equal(w, "the answer", w.addOnce(r).Tasks[0].ID, out.Tasks[0].ID)
			})
		})
	}
}
