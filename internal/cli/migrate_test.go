package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

// A world is a folder in which tasklock runs, and nothing else.
type world struct {
	t   *testing.T
	dir string
}

func newWorld(t *testing.T) world {
	t.Helper()
	dir, err := os.MkdirTemp("", "migrate-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a git that lost its parent may still write
	w := world{t, dir}
	for _, remote := range []string{"from.git", "to.git"} {
		if out, err := exec.Command("git", "init", "--quiet", "--bare", filepath.Join(w.dir, remote)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return w
}

func (w world) url(kind, name string) string {
	switch kind {
	case "git":
		return "git:" + filepath.Join(w.dir, name+".git")
	case "file":
		return "file:" + filepath.Join(w.dir, name)
	}
	return "sqlite:" + filepath.Join(w.dir, name, "t.db")
}

func (w world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = w.dir
	cmd.Env = []string{"TASKLOCK_TEST_MAIN=1", "HOME=" + w.dir, "PATH=" + os.Getenv("PATH"), "TASKLOCK_OWNER=me"}
	return cmd
}

func (w world) run(args ...string) (out string, exit int) {
	w.t.Helper()
	cmd := w.command(args...)
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func (w world) must(args ...string) string {
	w.t.Helper()
	out, exit := w.run(args...)
	if exit != 0 {
		w.t.Fatalf("tasklock %s: exit %d: %s", strings.Join(args, " "), exit, out)
	}
	return out
}

// tokens and revisions are written into lines of history that arrive from elsewhere.
var tokens = regexp.MustCompile(`,"(token|was)":[0-9]+`)

// records are what a store holds, without what says where and when.
func (w world) records(url string) map[string]string {
	w.t.Helper()
	out, open := w.look(url)
	if !open {
		w.t.Fatalf("%s is closed", url)
	}
	return out
}

// look is the same of a store that may not be there, or closed.
func (w world) look(url string) (records map[string]string, open bool) {
	w.t.Helper()
	file := filepath.Join(w.dir, "records.jsonl")
	if out, exit := w.run("backup", file, "--force", "--store", url); exit != 0 {
		if exit != 3 {
			w.t.Fatalf("exit %d: %s", exit, out)
		}
		return nil, false
	}
	text, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for line := range bytes.Lines(text) {
		var r struct {
			Key   string
			Value json.RawMessage
		}
		if json.Unmarshal(line, &r) == nil && r.Key != "" {
			out[r.Key] = tokens.ReplaceAllString(string(r.Value), "")
		}
	}
	return out, true
}

// fill puts n tasks into a store, and some of everything else.
func (w world) fill(url string, n int) {
	w.t.Helper()
	w.must("init", "--store", url)
	var file strings.Builder
	for i := range n {
		fmt.Fprintf(&file, "- [ ] task number %d with a title of some length #label%d\n", i, i%7)
	}
	path := filepath.Join(w.dir, "plan.md")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.must("tasks", "import", path, "--store", url)
	w.must("acquire", "a", "b", "section:S", "--store", url)
	w.must("release", "a", "b", "section:S", "--store", url)
}

// TestMigrateKilled kills a migration at random moments and repeats it, until
// it has come through. Whenever the new store answers, everything is there;
// whenever the old one takes a write, the new one is not in use.
func TestMigrateKilled(t *testing.T) {
	long.NotShort(t) // many processes
	rounds, tasks := 1, 300
	if long.Asked() {
		rounds, tasks = long.Count(5), 900
	}
	for _, pair := range [][2]string{{"sqlite", "file"}, {"file", "git"}, {"git", "sqlite"}} {
		for round := range rounds {
			t.Run(fmt.Sprintf("%s to %s %d", pair[0], pair[1], round), func(t *testing.T) {
				w := newWorld(t)
				from, to := w.url(pair[0], "from"), w.url(pair[1], "to")
				w.fill(from, tasks)
				want := w.records(from)
				kills, limit := 0, 5*time.Millisecond
				r := rand.New(rand.NewPCG(uint64(round), 7))
				for ; ; kills++ {
					if w.killed(time.Duration(r.Int64N(int64(limit))), "migrate", "--from", from, "--to", to) {
						break
					}
					limit = min(limit*5/4, time.Minute)
					got, open := w.look(to)
					if !open || len(got) == 0 { // or made, and not closed yet
						continue
					}
					if diff := different(want, got); diff != "" {
						t.Fatalf("kill %d: open too early: %s", kills, diff)
					}
					if _, exit := w.run("list", "--store", from); exit != 3 {
						t.Fatalf("kill %d: both stores are open", kills)
					}
				}
				if diff := different(want, w.records(to)); diff != "" {
					t.Errorf("after %d kills: %s", kills, diff)
				}
				if out, exit := w.run("acquire", "late", "--store", from); exit != 3 || !strings.Contains(out, "has moved to") {
					t.Errorf("the old store: exit %d: %s", exit, out)
				}
				w.must("acquire", "new", "--store", to)
				t.Logf("%d kills", kills)
			})
		}
	}
}

// killed runs a command and kills it after a while. It reports whether the
// command was done before.
func (w world) killed(after time.Duration, args ...string) bool {
	w.t.Helper()
	cmd := w.command(args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	if strings.Contains(out.String(), "repeat the command") { // a git push of one that was killed before has arrived meanwhile
		return false
	}
	if err != nil && cmd.ProcessState.ExitCode() > 0 {
		w.t.Fatalf("%v: %s", err, out.String())
	}
	return err == nil
}

func different(want, got map[string]string) string {
	for k, v := range want {
		if got[k] != v {
			return fmt.Sprintf("%s is %.80q, want %.80q", k, got[k], v)
		}
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%d records, want %d", len(got), len(want))
	}
	return ""
}

// TestRestoreKilled does the same to a restore over a store with records.
func TestRestoreKilled(t *testing.T) {
	long.NotShort(t) // many processes
	for _, kind := range []string{"sqlite", "file", "git"} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			url := w.url(kind, "to")
			w.fill(url, 200)
			want := w.records(url)
			w.must("backup", "b.jsonl", "--store", url)
			w.must("acquire", "later", "--store", url)
			limit := 5 * time.Millisecond
			for kills := 0; !w.killed(time.Duration(rand.Int64N(int64(limit))), "restore", "b.jsonl", "--force", "--store", url); kills++ {
				limit = min(limit*3/2, time.Minute)
				switch out, exit := w.run("check", "later", "--store", url); exit {
				case 0, 3:
				case 1: // it was killed after the last step
					got, open := w.look(url)
					if !open && kind == "git" { // its last push goes on without it: this one has closed the store again
						continue
					}
					if diff := different(want, got); diff != "" {
						t.Fatalf("open too early: %s", diff)
					}
				default:
					t.Fatalf("exit %d: %s", exit, out)
				}
			}
			if diff := different(want, w.records(url)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMigrateUnderLoad lets workers acquire and release locks, and add tasks,
// while the store moves away under them. Every answer that one of them got is true
// in the new store, and the old one answers nobody afterwards.
func TestMigrateUnderLoad(t *testing.T) {
	long.NotShort(t) // many processes
	for _, pair := range [][2]string{{"sqlite", "file"}, {"file", "sqlite"}, {"git", "sqlite"}, {"sqlite", "git"}} {
		t.Run(pair[0]+" to "+pair[1], func(t *testing.T) {
			w := newWorld(t)
			from, to := w.url(pair[0], "from"), w.url(pair[1], "to")
			w.fill(from, 50)
			var workers sync.WaitGroup
			var mu sync.Mutex
			held, added, last := map[string]string{}, []string{}, int64(0)
			started := make(chan struct{}, 4)
			for n := range 4 {
				workers.Go(func() {
					for i := 0; ; i++ {
						key := fmt.Sprintf("w%d-%d", n, i)
						out, exit := w.run("acquire", key, "--store", from, "--owner", key, "--json")
						if exit == 3 {
							return
						}
						if exit != 0 {
							t.Errorf("acquire: exit %d: %s", exit, out)
							return
						}
						var got struct{ Data struct{ Token int64 } }
						if err := json.Unmarshal([]byte(out), &got); err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						held[key], last = key, max(last, got.Data.Token)
						mu.Unlock()
						if out, exit := w.run("tasks", "add", key, "--id", key+"-task", "--store", from); exit == 0 {
							mu.Lock()
							added = append(added, key+"-task")
							mu.Unlock()
						} else if exit != 3 {
							t.Errorf("add: exit %d: %s", exit, out)
						}
						if i == 1 {
							started <- struct{}{}
						}
					}
				})
			}
			for range 4 {
				<-started
			}
			w.must("migrate", "--from", from, "--to", to, "--force")
			workers.Wait()
			records := w.records(to)
			for key := range held {
				if records["lock/"+key] == "" {
					t.Errorf("the lock on %s was acknowledged and is lost", key)
				}
			}
			for _, id := range added {
				if records["task/"+id] == "" {
					t.Errorf("task %s was acknowledged and is lost", id)
				}
			}
			var next struct{ Data struct{ Token int64 } }
			if err := json.Unmarshal([]byte(w.must("acquire", "next", "--store", to, "--json")), &next); err != nil || next.Data.Token <= last {
				t.Errorf("token %d after %d: %v", next.Data.Token, last, err)
			}
			t.Logf("%d locks, %d tasks acknowledged", len(held), len(added))
		})
	}
}
