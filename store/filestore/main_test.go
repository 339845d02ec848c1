package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/filestore"
)

// The environment of a separate process: a job, and the folder of the store.
const (
	envJob   = "FILESTORE_CHILD"
	envDir   = "FILESTORE_DIR"
	envLimit = "FILESTORE_LIMIT" // of the journal, also for the suite's workers
	envCount = "FILESTORE_COUNT" // of what the job does
)

func TestMain(m *testing.M) {
	if job := os.Getenv(envJob); job != "" {
		runtime.LockOSThread() // strace counts the calls of each thread
		say(child(job, os.Getenv(envDir)))
		os.Exit(0) // without Close: a command just goes
	}
	drivertest.Main(m, func(place string) (driver.Store, error) { return openLimited(context.Background(), place) })
}

// openLimited opens a store whose journal starts over as often as the
// environment says.
func openLimited(ctx context.Context, dir string) (*filestore.Store, error) {
	s, err := filestore.Open(ctx, dir, &filestore.Options{Create: true})
	if err != nil {
		return nil, err
	}
	if n, err := strconv.ParseInt(os.Getenv(envLimit), 10, 64); err == nil {
		s.SetLimit(n)
	}
	return s, nil
}

// child is what a process of its own does, and says at the end.
func child(job, dir string) string {
	ctx := context.Background()
	if job == "steps" || job == "stream" {
		return walk(ctx, dir, job == "stream")
	}
	if job == "pairs" {
		n, _ := strconv.Atoi(os.Getenv(envCount))
		return answer(pairs(ctx, dir, n))
	}
	if job == "model" {
		n, _ := strconv.Atoi(os.Getenv(envCount))
		return answer(model(ctx, dir, n))
	}
	s, err := filestore.Open(ctx, dir, nil)
	if err != nil {
		return answer(err)
	}
	switch job {
	case "part":
		return answer(part(ctx, s))
	case "read":
		var snap driver.Snapshot
		if snap, err = s.Read(ctx, driver.Query{Ranges: []driver.Range{{}}}); err == nil {
			return fmt.Sprintf("read %d", len(snap.Records))
		}
	case "write":
		_, err = s.Commit(ctx, put("lock/child", `{}`))
	}
	return answer(err)
}

// walk does the steps, all of a short story or without end, and says after
// each what became of it.
func walk(ctx context.Context, dir string, endless bool) string {
	s, err := openLimited(ctx, dir)
	if err != nil {
		return answer(err)
	}
	for i := 0; endless || i < shortStory; i++ {
		_, err := s.Commit(ctx, step(i))
		say(strings.ReplaceAll(answer(err), "\n", " "))
		if err != nil && endless {
			return "end"
		}
	}
	return "end"
}

// shortStory is how many steps show everything at least once.
const shortStory = 14

// step is the n-th of a row of commits of which each makes a difference:
// records that come, change, and go, alone and several at once; then a row of
// deletions and nothing else.
func step(n int) driver.Batch {
	value := func(i int) []byte { return fmt.Appendf(nil, `{"n":%d,"pad":%q}`, i, strings.Repeat("x", i*37%200)) }
	b := driver.Batch{Writes: []driver.Write{{Key: "counter/a", Value: value(n)}}}
	switch round, i := n/40, n%40; {
	case i == 5:
		b.Writes = append(b.Writes, driver.Write{Key: "task/Ä/1", Value: value(n)}, driver.Write{Key: "lease/me/x", Value: value(n), TTL: 1e9})
	case i == 7:
		b.Writes = append(b.Writes, driver.Write{Key: "task/Ä/1"}, driver.Write{Key: "lease/me/x"})
	case i < 20:
		b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("event/%d-%d", round, i), Value: value(n)})
	default:
		b.Writes = []driver.Write{{Key: fmt.Sprintf("event/%d-%d", round, i-20)}}
	}
	return b
}

// after is what the store holds after n steps.
func after(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		for _, w := range step(i).Writes {
			if w.Value == nil {
				delete(m, w.Key)
			} else {
				m[w.Key] = string(w.Value)
			}
		}
	}
	return m
}

// answer names the class of an error in one word, before its text.
func answer(err error) string {
	for name, e := range map[string]error{
		"damaged": driver.ErrDamaged, "unsafe": driver.ErrUnsafe, "newer": driver.ErrNewer,
		"missing": driver.ErrMissing, "denied": driver.ErrDenied, "conflict": driver.ErrConflict,
	} {
		if errors.Is(err, e) {
			return name + ": " + err.Error()
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return "ok"
}

// command is a process of its own that will do job.
func command(t testing.TB, job, dir string, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), envJob+"="+job, envDir+"="+dir), env...)
	return cmd
}

// run does job in a process of its own; prepare may change the command.
func run(t *testing.T, job, dir string, prepare ...func(*exec.Cmd)) string {
	t.Helper()
	cmd := command(t, job, dir)
	for _, p := range prepare {
		p(cmd)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", job, err, out)
	}
	return strings.TrimSpace(string(out))
}

func put(key, value string) driver.Batch {
	return driver.Batch{Writes: []driver.Write{{Key: key, Value: []byte(value)}}}
}

func open(t *testing.T, dir string) *filestore.Store {
	t.Helper()
	s, err := filestore.Open(t.Context(), dir, &filestore.Options{Create: true})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// place makes a closed store with two records.
func place(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s, err := filestore.Open(t.Context(), dir, &filestore.Options{Create: true})
	must(t, err)
	for _, b := range []driver.Batch{put("lock/a", `{"owner":"me"}`), put("task/b", `{}`)} {
		_, err := s.Commit(t.Context(), b)
		must(t, err)
	}
	must(t, s.Close())
	return dir
}

// all returns what the store holds, and its revision.
func all(t testing.TB, dir string) (map[string]string, int64, error) {
	s, err := filestore.Open(t.Context(), dir, &filestore.Options{Create: true})
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = s.Close() }()
	snap, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{}}})
	if err != nil {
		return nil, 0, err
	}
	m := map[string]string{}
	for _, r := range snap.Records {
		m[r.Key] = string(r.Value)
	}
	return m, snap.Rev, nil
}

// use opens, reads and writes, and returns the first error.
func use(t *testing.T, dir string) error {
	s, err := filestore.Open(t.Context(), dir, &filestore.Options{Create: true})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{}}}); err != nil {
		return err
	}
	_, err = s.Commit(t.Context(), put("lock/b", `{}`))
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
