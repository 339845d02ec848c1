//go:build unix

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

// delivered is what a command got: the names of events in order, with their revisions.
func delivered(t *testing.T, file string) (names []string, revs []int64) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e struct {
			Rev    int64
			Reason string
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		names, revs = append(names, e.Reason), append(revs, e.Rev)
	}
	return names, revs
}

// TestWatchExecIsKilled kills watchers at random while events are written. The command
// gets every event at least once, in order.
func TestWatchExecIsKilled(t *testing.T) {
	long.NotShort(t)
	const events = 500
	s := newSession(t)
	s.pipe("init")
	d, err := sqlitestore.Open(t.Context(), filepath.Join(s.dir, ".tasklock", "tasklock.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	st := store.New(d)
	var want []string
	for n := range events {
		want = append(want, fmt.Sprint("event ", n))
	}
	wrote := make(chan error, 1)
	go func() {
		for group := range slices.Chunk(want, 2) {
			if _, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
				for _, name := range group {
					if err := lease.Log(tx, lease.Event{Event: "noted", Owner: "test", Reason: name}); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	file := filepath.Join(s.dir, "got")
	kills := 0
	for len(unique(t, file)) < events {
		cmd := s.command("watch", "--exec", "c", "--since", "0", "--", "sh", "-c", "cat >>got")
		var log strings.Builder
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test ends before its turn
		until := min(events, len(unique(t, file))+20+rand.IntN(100))
		patience.Until(t, fmt.Sprintf("%d events are delivered", until), func() bool { return len(unique(t, file)) >= until })
		victim := cmd.Process.Pid
		if inner := children(victim); len(inner) > 0 && rand.IntN(2) == 0 {
			victim = inner[rand.IntN(len(inner))]
		}
		kill(victim)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		kills++
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	names, revs := delivered(t, file)
	t.Logf("%d deliveries of %d events, %d kills", len(names), events, kills)
	if !slices.IsSorted(revs) {
		t.Errorf("not in the order of revisions: %v", revs)
	}
	if got := unique(t, file); !slices.Equal(got, want) {
		t.Errorf("got %d events, or not in order: %q", len(got), got)
	}
	if len(names) > events+4*kills {
		t.Errorf("%d deliveries of %d events after %d kills: the cursor does not move", len(names), events, kills)
	}
}

// unique is what was delivered, without repetitions.
func unique(t *testing.T, file string) (names []string) {
	t.Helper()
	all, _ := delivered(t, file)
	seen := map[string]bool{}
	for _, name := range all {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// children are the processes below a process.
func children(pid int) (pids []int) {
	out, _ := exec.Command("pgrep", "-P", fmt.Sprint(pid)).Output()
	for _, line := range strings.Fields(string(out)) {
		var pid int
		if _, err := fmt.Sscan(line, &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
