package task_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// Bad input is refused with a reason, and nothing changes.
func TestValidation(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("", "b"))
	add := func(n task.New) error {
		_, err := task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{n}})
		return err
	}
	edit := func(r task.EditRequest) error {
		r.Task = "a"
		_, err := task.Edit(w.ctx, w.st, r)
		return err
	}
	do := func(r task.StatusRequest) error {
		r.Tasks = []string{"a"}
		_, err := task.ChangeStatus(w.ctx, w.st, r)
		return err
	}
	long := strings.Repeat("x", 40<<10)
	for name, err := range map[string]func() error{
		"empty title":        func() error { return add(task.New{Title: "  "}) },
		"huge title":         func() error { return add(task.New{Title: long[:501]}) },
		"title of two lines": func() error { return add(task.New{Title: "a\nb"}) },
		"title not UTF-8":    func() error { return add(task.New{Title: "a\xff"}) },
		"title with NUL":     func() error { return add(task.New{Title: "a\x00"}) },
		"huge description":   func() error { return add(task.New{Title: "a", Description: long}) },
		"priority 0":         func() error { return edit(task.EditRequest{Priority: ptr(0)}) },
		"priority -1":        func() error { return add(task.New{Title: "a", Priority: -1}) },
		"priority 1000":      func() error { return add(task.New{Title: "a", Priority: 1000}) },
		"section of two":     func() error { return add(task.New{Title: "a", Section: "a//b"}) },
		"section -":          func() error { return add(task.New{Title: "a", Section: "-"}) },
		"section not UTF-8":  func() error { return add(task.New{Title: "a", Section: "\xff"}) },
		"section space":      func() error { return edit(task.EditRequest{Section: ptr(" a")}) },
		"id of a section":    func() error { return add(task.New{Title: "a", ID: "section:S"}) },
		"id of dots":         func() error { return add(task.New{Title: "a", ID: "../x"}) },
		"label with comma":   func() error { return add(task.New{Title: "a", Labels: []string{"a,b"}}) },
		"empty label":        func() error { return edit(task.EditRequest{Labels: &[]string{""}}) },
		"51 labels":          func() error { return add(task.New{Title: "a", Labels: make([]string, 51)}) },
		"201 dependencies":   func() error { return add(task.New{Title: "a", DependsOn: make([]string, 201)}) },
		"empty title later":  func() error { return edit(task.EditRequest{Title: ptr("")}) },
		"no such verb":       func() error { return do(task.StatusRequest{Verb: "finish", Owner: "A"}) },
		"no verb":            func() error { return do(task.StatusRequest{Owner: "A"}) },
		"claim by Do":        func() error { return do(task.StatusRequest{Verb: task.Claim, Owner: "A"}) },
		"reset by Do":        func() error { return do(task.StatusRequest{Verb: task.Reset, Owner: "A"}) },
		"huge reason":        func() error { return do(task.StatusRequest{Verb: task.Block, Owner: "A", Reason: long}) },
		"reason not UTF-8":   func() error { return do(task.StatusRequest{Verb: task.Block, Owner: "A", Reason: "\xff"}) },
		"reason with NUL":    func() error { return do(task.StatusRequest{Verb: task.Block, Owner: "A", Reason: "\x00"}) },
		"huge result": func() error {
			return do(task.StatusRequest{Verb: task.Complete, Owner: "A", Result: &task.Result{Commits: []string{long}}})
		},
		"no owner":         func() error { _, err := w.tryClaim("", "a"); return err },
		"no task":          func() error { _, err := w.tryClaim("A"); return err },
		"nothing to add":   func() error { _, err := task.Add(w.ctx, w.st, task.AddRequest{}); return err },
		"section priority": func() error { return w.section(task.SectionRequest{Name: "S", Priority: ptr(0)}) },
		"empty section":    func() error { return w.section(task.SectionRequest{New: true}) },
	} {
		w.unchanged(name, func() {
			var invalid *lease.InvalidError
			if err := err(); !errors.As(err, &invalid) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	w.unchanged("unknown ids", func() {
		for name, err := range map[string]func() error{
			"claim":    func() error { _, err := w.tryClaim("A", "none"); return err },
			"complete": func() error { return w.do(task.Complete, "A", 0, "none") },
			"reset":    func() error { _, err := w.reset(task.ResetRequest{Tasks: []string{"none"}}); return err },
			"depends":  func() error { return w.depends("none", "a") },
			"delete":   func() error { return del(w, "none") },
			"archive":  func() error { return archive(w, "none") },
			"edit":     func() error { _, err := task.Edit(w.ctx, w.st, task.EditRequest{Task: "none"}); return err },
			"progress": func() error {
				_, err := task.Progress(w.ctx, w.st, task.ProgressRequest{Task: "none", Owner: "A"})
				return err
			},
		} {
			if err := err(); !errors.Is(err, lease.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A dry run answers like a real one and changes nothing.
func TestDryRun(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("S", "b", "a"), in("", "c"), in("", "done"))
	w.must(w.do(task.Complete, "A", 0, "done"))
	w.claim("A", "c")
	w.acquire("A", "done")
	w.unchanged("a dry run", func() {
		added, err := task.Add(w.ctx, w.st, task.AddRequest{Tasks: []task.New{{Title: "x", Section: "new", DependsOn: []string{"a"}}}, DryRun: true})
		w.must(err)
		equal(w, "sections", added.Sections, []string{"new"})
		_, err = task.ClaimTasks(w.ctx, w.st, task.ClaimRequest{Tasks: []string{"a"}, Acquire: lease.AcquireRequest{Owner: "A", DryRun: true}})
		w.must(err)
		out, err := task.ChangeStatus(w.ctx, w.st, task.StatusRequest{Verb: task.Complete, Tasks: []string{"a", "c"}, Owner: "A", DryRun: true})
		w.must(err)
		equal(w, "status", out.Tasks[0].Status, task.Completed)
		_, err = w.reset(task.ResetRequest{Tasks: []string{"c"}, Force: true, DryRun: true})
		w.must(err)
		_, err = task.Depends(w.ctx, w.st, task.DependsRequest{Task: "c", On: []string{"a"}, DryRun: true})
		w.must(err)
		_, err = task.Edit(w.ctx, w.st, task.EditRequest{Task: "a", Title: ptr("new"), DryRun: true})
		w.must(err)
		_, err = task.Progress(w.ctx, w.st, task.ProgressRequest{Task: "c", Owner: "A", Note: "half", DryRun: true})
		w.must(err)
		_, err = task.Delete(w.ctx, w.st, task.RemoveRequest{Tasks: []string{"b"}, DryRun: true})
		w.must(err)
		_, err = task.Archive(w.ctx, w.st, task.RemoveRequest{Closed: true, DryRun: true})
		w.must(err)
		_, err = task.SetSection(w.ctx, w.st, task.SectionRequest{Name: "T", New: true, DryRun: true})
		w.must(err)
		_, err = task.NextNumber(w.ctx, w.st, true)
		w.must(err)
		_, err = task.Resync(w.ctx, w.st, true)
		w.must(err)
		_, err = task.FreeArchived(w.ctx, w.st, "admin", true)
		w.must(err)
		_, err = task.Import(w.ctx, w.st, task.ImportRequest{Data: []byte("- [ ] x"), Format: "markdown", DryRun: true})
		w.must(err)
		_, err = task.Next(w.ctx, w.st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: "A", DryRun: true}})
		w.must(err)
	})
}

// A damaged file is refused with a reason, and nothing changes.
func TestDamagedFiles(t *testing.T) {
	w := newWorld(t)
	w.add(in("", "a"))
	for name, data := range map[string]string{
		"empty":             ``,
		"no JSON":           `{"tasks":[{"title":"x"`,
		"something after":   `{"tasks":[{"title":"x"}]} {}`,
		"a list":            `[{"title":"x"}]`,
		"another field":     `{"tasks":[{"title":"x","titel":"y"}]}`,
		"a wrong type":      `{"tasks":[{"title":7}]}`,
		"no tasks":          `{"tasks":[]}`,
		"null":              `null`,
		"no such status":    `{"tasks":[{"title":"x","status":"done"}]}`,
		"no title":          `{"tasks":[{"title":"x"},{"id":"y"}]}`,
		"an id twice":       `{"tasks":[{"title":"x","id":"i"},{"title":"y","id":"i"}]}`,
		"an id in use":      `{"tasks":[{"title":"x"},{"title":"y","id":"a"}]}`,
		"on a later one":    `{"tasks":[{"title":"x","dependsOn":["later"]},{"title":"later"}]}`,
		"on itself":         `{"tasks":[{"title":"x","id":"x1","dependsOn":["x1"]}]}`,
		"on nothing":        `{"tasks":[{"title":"x","dependsOn":[""]}]}`,
		"a bad id":          `{"tasks":[{"title":"x","id":"job:y"}]}`,
		"a huge priority":   `{"tasks":[{"title":"x","priority":1e9}]}`,
		"a priority 1e400":  `{"tasks":[{"title":"x","priority":1e400}]}`,
		"too many":          `{"tasks":[` + strings.Repeat(`{"title":"x"},`, 1000) + `{"title":"x"}]}`,
		"very deep":         strings.Repeat(`{"tasks":[`, 20_000),
		"very long":         strings.Repeat(" ", 9<<20),
		"md: nothing":       "# Title\n\ntext\n",
		"md: one long line": "- [ ] " + strings.Repeat("x", 2<<20),
		"md: long title":    "- [ ] " + strings.Repeat("x", 600),
		"md: a section -":   "# -x\n- [ ] y\n",
		"md: not UTF-8":     "- [ ] a\xffb\n",
	} {
		format := "json"
		if strings.HasPrefix(name, "md") {
			format = "markdown"
		}
		w.unchanged(name, func() {
			_, err := task.Import(w.ctx, w.st, task.ImportRequest{Data: []byte(data), Format: format})
			if err == nil || len(err.Error()) > 500 {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// What was exported is imported elsewhere as the same list.
func TestExportIsImported(t *testing.T) {
	w := newWorld(t)
	hostile := []string{
		"t1", "- [ ] nested", "# heading", "[x] ticked", "a #label", "a \\#b \\", "trailing \\#x", "<b>&lt;&amp;", "*a* _b_ `c` ~d~", "C:\\dir\\", "a  b",
		"=cmd()", "| table |", "1. x", "![i](u)", "&#35;x", "é\u2028x", "\u200fbidi", "tab\there", "x #", "(A)", "---", "```", "\\\\", "#", "@me",
	}
	for i, title := range hostile {
		n := task.New{Title: title, Section: []string{"", "C#", "A_b*", "# x"}[i%4], Labels: []string{"api", "é-1"}[:i%3], Priority: 1 + i}
		if i > 0 {
			n.DependsOn = []string{fmt.Sprint("t", i)}
		}
		w.add(n)
	}
	w.must(w.do(task.Complete, "A", 0, "t1", "t2"))
	w.claim("A", "t3")
	w.must(w.do(task.Block, "A", 0, "t4"))
	want, err := task.List(w.ctx, w.st, task.ListRequest{})
	w.must(err)
	for _, format := range []string{"json", "markdown"} {
		var b bytes.Buffer
		w.must(task.Export(w.ctx, w.st, &b, format))
		other := newWorld(t)
		_, err := task.Import(other.ctx, other.st, task.ImportRequest{Data: b.Bytes(), Format: format})
		other.must(err)
		got, err := task.List(other.ctx, other.st, task.ListRequest{})
		other.must(err)
		byTitle := map[string]task.Info{}
		for _, i := range got.Tasks {
			byTitle[i.Title] = i
		}
		for _, i := range want.Tasks {
			o := byTitle[i.Title]
			same := o.Section == i.Section && strings.Join(o.Labels, " ") == strings.Join(i.Labels, " ") && o.Status.Done() == i.Status.Done()
			if format == "json" {
				same = same && o.ID == i.ID && o.Priority == i.Priority && strings.Join(o.DependsOn, " ") == strings.Join(i.DependsOn, " ") &&
					(o.Status == i.Status || i.Status == task.InProgress && o.Status == task.Pending)
			}
			if !same {
				t.Errorf("%s: %q became %+v", format, i.Title, o.Task)
			}
		}
	}
}
