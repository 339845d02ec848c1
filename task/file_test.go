package task_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

func export(t *testing.T, st *store.Store, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := task.Export(ctx, st, &b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRoundTrip: what was exported and imported elsewhere is exported the same.
func TestRoundTrip(t *testing.T) {
	st := store.New(memstore.New())
	addTasks(
		t, st,
		task.New{Title: "plain"},
		task.New{Title: `odd _*[x]* <b> & &lt; #12 C:\new \_ ` + "`code` #", Section: "C#", Labels: []string{"api", "two words"}, Priority: task.High},
		task.New{Title: "later", Section: "A_b", DependsOn: []string{"plain"}, Description: "line\nline", Labels: []string{"é", "x-1"}},
	)
	if err := do(st, task.Complete, "me", "plain", 0); err != nil {
		t.Fatal(err)
	}
	high := 1
	if _, err := task.SetSection(ctx, st, task.SectionRequest{Name: "A_b", Priority: &high}); err != nil {
		t.Fatal(err)
	}
	shared := true
	if _, err := task.SetSection(ctx, st, task.SectionRequest{Name: "Late", New: true, Shared: &shared, On: []string{"C#"}}); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"json", "markdown"} {
		first := export(t, st, format)
		other := store.New(memstore.New())
		if _, err := task.Import(ctx, other, task.ImportRequest{Data: []byte(first), Format: format, By: "me"}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"plain", "later", `odd _*[x]* <b> & &lt; #12 C:\new \_ ` + "`code` #"} {
			if _, err := task.Show(ctx, other, want); err != nil {
				t.Errorf("%s: %v in\n%s", format, err, first)
			}
		}
		if again := export(t, other, format); format == "json" && again != first || strings.Count(again, "\n") != strings.Count(first, "\n") {
			t.Errorf("%s:\n%s\nbecame\n%s", format, first, again)
		}
	}
	i, err := task.Show(ctx, st, "plain")
	if err != nil || i.Status != task.Completed {
		t.Errorf("%+v %v", i, err)
	}
}

// TestNumberIsNoPrefix: a number that is gone is not the beginning of another.
func TestNumberIsNoPrefix(t *testing.T) {
	st := store.New(memstore.New())
	addTasks(t, st, task.New{Title: "one"}, task.New{ID: "t12", Title: "twelve"}, task.New{ID: "parse-a", Title: "a"})
	if err := do(st, task.Complete, "me", "t1", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := task.Archive(ctx, st, task.RemoveRequest{Tasks: []string{"t1"}}); err != nil {
		t.Fatal(err)
	}
	var none *task.NotFoundError
	for _, ref := range []string{"t1", "1"} {
		if err := do(st, task.Complete, "me", ref, 0); !errors.As(err, &none) {
			t.Errorf("complete %s: %v", ref, err)
		}
		if i, err := task.Show(ctx, st, ref); err != nil || i.ID != "t1" {
			t.Errorf("show %s: %s, %v", ref, i.ID, err)
		}
	}
	if i, err := task.Show(ctx, st, "pars"); err != nil || i.ID != "parse-a" {
		t.Errorf("show pars: %s, %v", i.ID, err)
	}
}

// TestProgressRenews: it moves the expiry, of the section too.
func TestProgressRenews(t *testing.T) {
	st := store.New(memstore.New())
	addTasks(t, st, task.New{Title: "one", Section: "S"})
	c, err := claim(st, "A", "t1")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond)
	if _, err := task.Progress(ctx, st, task.ProgressRequest{Task: "t1", Owner: "A", Token: c.Grant.Token, Note: "half"}); err != nil {
		t.Fatal(err)
	}
	i, err := task.Show(ctx, st, "t1")
	if err != nil || i.Progress != "half" || !i.Lock.ExpiresAt.After(c.Grant.ExpiresAt.Time) || i.Token != c.Grant.Token {
		t.Fatalf("%+v %v", i, err)
	}
	if _, err := task.Progress(ctx, st, task.ProgressRequest{Task: "t1", Owner: "B", Note: "no"}); !errors.Is(err, lease.ErrLost) {
		t.Fatal(err)
	}
}

// TestBatchKeepsItsOrder: tasks added at once come in the order of their list,
// not of the letters of their ids.
func TestBatchKeepsItsOrder(t *testing.T) {
	st := store.New(memstore.New())
	var list []task.New
	for range 12 {
		list = append(list, task.New{Title: "x"})
	}
	added := addTasks(t, st, list...)
	for _, want := range added {
		if n, err := next(st, "A"); err != nil || n.Task.ID != want.ID {
			t.Fatalf("got %s, %v, want %s", n.Task.ID, err, want.ID)
		}
	}
}
