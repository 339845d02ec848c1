//go:build unix

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/torture/long"
)

// TestThousandTasks: the bounds of one step, through the command.
func TestThousandTasks(t *testing.T) {
	long.NotShort(t) // reads long lists again and again
	s := newSession(t)
	write := func(name string, from, to int, on string) {
		type entry struct {
			ID        string   `json:"id"`
			Title     string   `json:"title"`
			Section   string   `json:"section"`
			DependsOn []string `json:"dependsOn,omitempty"`
		}
		list := map[string][]entry{}
		for i := from; i <= to; i++ {
			e := entry{ID: fmt.Sprintf("t%d", i), Title: fmt.Sprint("Task ", i), Section: "Big"}
			if i > 1 {
				e.DependsOn = []string{on}
			}
			list["tasks"] = append(list["tasks"], e)
		}
		data, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("most.json", 1, 1000, "t1")
	write("more.json", 1001, 1010, "t2")
	write("many.json", 1, 1001, "t1")
	refused := func(want string, args ...string) {
		t.Helper()
		out, err := s.command(args...).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	refused("holds 1001 tasks; 1 to 1000", "tasks", "import", "many.json")
	s.pipe("tasks", "import", "most.json", "-q")
	s.pipe("tasks", "import", "more.json", "-q")
	s.pipe("tasks", "complete", "t1")
	refused("would touch 1010 tasks, at most 1000", "tasks", "reset", "t1", "--cascade")
	if got := s.pipe("tasks", "list", "--status", "completed", "-q"); got != "t1\n" {
		t.Errorf("completed: %q", got)
	}
	gone := []string{"tasks", "delete"}
	for i := 1001; i <= 1010; i++ {
		gone = append(gone, fmt.Sprintf("t%d", i))
	}
	s.pipe(gone...)
	if out := s.pipe("tasks", "reset", "t1", "--cascade"); strings.Count(out, "Reset ") != 1000 {
		t.Errorf("reset %d tasks", strings.Count(out, "Reset "))
	}
	if got := s.pipe("next", "-q"); got != "t1\n" {
		t.Errorf("next: %q", got)
	}
}

// TestOneRequestOfManyProcesses: sixteen processes send the same request at once, and
// all of them answer with its one effect.
func TestOneRequestOfManyProcesses(t *testing.T) {
	s := newSession(t)
	s.pipe("init")
	s.pipe("jobs", "add", "nightly", "--cron", "@daily", "--", "true")
	for _, args := range [][]string{{"tasks", "add", "Fix", "--request-id", "r1", "-q"}, {"jobs", "trigger", "nightly", "--request-id", "r2"}} {
		var all [16]*exec.Cmd
		var said [len(all)]bytes.Buffer
		for i := range all {
			all[i] = s.command(args...)
			all[i].Stdout, all[i].Stderr = &said[i], &said[i]
			if err := all[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		answers := map[string]bool{}
		for i, cmd := range all {
			if err := cmd.Wait(); err != nil {
				t.Errorf("%q: %v: %s", args, err, &said[i])
			}
			answers[strings.Replace(said[i].String(), " (it was already)", "", 1)] = true
		}
		if len(answers) != 1 {
			t.Errorf("%q: %v", args, answers)
		}
	}
	if got := s.pipe("tasks", "list", "-q"); got != "t1\n" {
		t.Errorf("tasks: %q", got)
	}
	if got := s.pipe("jobs", "show", "nightly"); !strings.Contains(got, "triggered: 1 wait") {
		t.Errorf("job: %q", got)
	}
}
