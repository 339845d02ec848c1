//go:build unix

package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/sqlitestore"
	"github.com/tasklock/tasklock/task"
)

// TestRunnersDoEachTaskOnce lets four runners work through 200 tasks and kills
// one of them with a task in its hands.
func TestRunnersDoEachTaskOnce(t *testing.T) {
	tasks, runners := 200, 4
	if testing.Short() {
		tasks = 30
	}
	s := newSession(t)
	s.pipe("init")
	d, err := sqlitestore.Open(t.Context(), filepath.Join(s.dir, ".tasklock", "tasklock.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	st := store.New(d)
	var list []task.New
	for i := range tasks {
		list = append(list, task.New{Title: fmt.Sprint("task ", i)})
	}
	if _, err := task.Add(t.Context(), st, task.AddRequest{Tasks: list, By: "test"}); err != nil {
		t.Fatal(err)
	}

	victim := s.command("runner", "start", "--id", "victim", "--", "sh", "-c",
		`echo {id} >>ran; echo >>mine; if [ $(wc -l <mine) = 5 ]; then echo {id} >stuck.new; mv stuck.new stuck; sleep 60; fi`)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, runners)
	for i := range runners - 1 {
		cmd := s.command("runner", "start", "--id", fmt.Sprint("r", i), "--idle", "wait", "--json", "--", "sh", "-c", "echo {id} >>ran")
		var log strings.Builder
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			err := cmd.Wait()
			if err == nil {
				err = eachLine(log.String())
			}
			ended <- err
		}()
	}
	stuck := ""
	patience.Until(t, "the victim is at work", func() bool {
		b, err := os.ReadFile(filepath.Join(s.dir, "stuck"))
		stuck = strings.TrimSpace(string(b))
		return err == nil
	})
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	patience.Until(t, "all are completed", func() bool {
		n, err := task.Count(t.Context(), st)
		return err == nil && n.Status[task.Completed] == tasks
	})
	s.pipe("runner", "stop")
	for range runners - 1 {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a runner does not stop")
		}
	}

	ran, err := os.ReadFile(filepath.Join(s.dir, "ran"))
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, id := range strings.Fields(string(ran)) {
		times[id]++
	}
	times[stuck]-- // by the one that was killed
	done := completions(t, st)
	for i := range tasks {
		id := fmt.Sprint("t", i+1)
		if times[id] != 1 || done[id] != 1 {
			t.Errorf("%s ran %d times and was completed %d times", id, times[id], done[id])
		}
	}
	if i, err := task.Show(t.Context(), st, stuck); err != nil || i.Attempts != 2 {
		t.Errorf("%s, which was in the hands of the victim, has %d attempts (%v)", stuck, i.Attempts, err)
	}
}

// eachLine checks a log for programs.
func eachLine(log string) error {
	last := ""
	for line := range strings.Lines(log) {
		var e struct {
			Time                   time.Time
			Runner, Event, Message string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Time.IsZero() || e.Runner == "" || e.Event == "" || e.Message == "" {
			return fmt.Errorf("line of the log %q: %v", line, err)
		}
		last = e.Event
	}
	if last != "stopped" {
		return errors.New("the log ends with " + last)
	}
	return nil
}

func completions(t *testing.T, st *store.Store) map[string]int {
	t.Helper()
	h, err := lease.History(context.Background(), st, lease.HistoryRequest{})
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]int{}
	for _, e := range h.Events {
		if e.Event == "task complete" {
			done[e.Keys[0]]++
		}
	}
	return done
}
