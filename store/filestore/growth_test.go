//go:build linux

package filestore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/filestore"
)

// pair is what acquire and release ask of a driver.
func pair(ctx context.Context, s *filestore.Store, i int) error {
	lease, event := fmt.Sprintf("lease/me/%d", i), fmt.Sprintf("event/%08d", 2*i)
	value := []byte(`{"key":"deploy","lease":"me/k3v9","owner":"me"}`)
	snap, err := s.Read(ctx, driver.Query{Keys: []string{"meta/store", "lock/k", lease, "queue/k", "name/k"}, Since: 1})
	if err != nil {
		return err
	}
	meta := driver.Guard{Key: "meta/store"}
	for _, r := range snap.Records {
		if r.Key == meta.Key {
			meta.Rev = r.Rev
		}
	}
	rev, err := s.Commit(ctx, driver.Batch{
		Guards: []driver.Guard{meta, {Key: event}, {Key: "lock/k"}, {Key: lease}, {Key: "queue/k"}, {Key: "name/k"}},
		Writes: []driver.Write{{Key: "lock/k", Value: value}, {Key: lease, Value: value}, {Key: event, Value: value}},
	})
	if err != nil {
		return err
	}
	if _, err := s.Read(ctx, driver.Query{Keys: []string{"meta/store", "lock/k", lease, "name/k"}, Since: 1}); err != nil {
		return err
	}
	event = fmt.Sprintf("event/%08d", 2*i+1)
	_, err = s.Commit(ctx, driver.Batch{
		Guards: []driver.Guard{meta, {Key: event}, {Key: "lock/k", Rev: rev}, {Key: lease, Rev: rev}, {Key: "name/k"}},
		Writes: []driver.Write{{Key: "lock/k"}, {Key: lease}, {Key: event, Value: value}},
	})
	return err
}

// pairs makes some pairs between two marks in the trace of its system calls.
func pairs(ctx context.Context, dir string, count int) error {
	s, err := filestore.Open(ctx, dir, nil)
	if err != nil {
		return err
	}
	defer mark()
	for i := range 2 * count {
		if i == count {
			mark()
		}
		if err := pair(ctx, s, i); err != nil {
			return err
		}
	}
	return nil
}

const markName = "/between-marks"

func mark() { _ = syscall.Access(markName, 0) }

var callName = regexp.MustCompile(`^\d+ +(\w+)\(`)

// traced runs a job under strace and returns the system calls between its marks that
// name a file of the store, or a descriptor of one. The Go runtime and libc make calls
// of their own (a new thread reads how many cores there are); those do not count.
func traced(t *testing.T, job, dir string, env ...string) map[string]int {
	t.Helper()
	needTool(t, "strace", "strace")
	trace := filepath.Join(t.TempDir(), "trace")
	dir, err := filepath.EvalSymlinks(dir) // as strace names a descriptor
	must(t, err)
	cmd := command(t, job, dir, append(env, "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", "GOGC=off")...)
	cmd.Args = append([]string{"strace", "-f", "-qq", "-y", "-o", trace}, cmd.Path)
	cmd.Path, _ = exec.LookPath("strace")
	out, err := cmd.Output()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Fatalf("%s: %v %s", job, err, out)
	}
	text, err := os.ReadFile(trace)
	must(t, err)
	parts := strings.Split(string(text), markName)
	if len(parts) != 3 {
		t.Fatalf("%d marks in the trace", len(parts)-1)
	}
	calls := map[string]int{}
	for line := range strings.Lines(parts[1]) {
		if m := callName.FindStringSubmatch(line); m != nil && strings.Contains(line, dir) {
			calls[m[1]]++
			calls["all"]++
		}
	}
	return calls
}

// A pair reads no record twice, opens no folder again and lists none.
func TestSystemCallsOfAPair(t *testing.T) {
	const most, count = 60, 20
	dir := place(t)
	s := open(t, dir)
	_, err := s.Commit(t.Context(), put("meta/store", `{}`))
	must(t, err)
	must(t, pair(t.Context(), s, 1000)) // all folders are there
	old(t, dir, filepath.Join(dir, "records"))
	calls := traced(t, "pairs", dir, envCount+"="+fmt.Sprint(count))
	if n := calls["all"] / count; n > most {
		t.Errorf("%d system calls for a pair, at most %d: %v", n, most, calls)
	}
	if calls["fdatasync"] != 2*count || calls["getdents64"]+calls["read"] > 0 {
		t.Errorf("%v", calls)
	}
}

// old lets some time pass, so that the entries of the store's folders are older
// than the precision of the file system's clock.
func old(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		fi, err := os.Stat(dir)
		must(t, err)
		changed := time.Unix(fi.Sys().(*syscall.Stat_t).Ctim.Unix())
		time.Sleep(time.Until(changed.Add(200 * time.Millisecond)))
	}
}

// part reads the first and the last records, those before and behind a key, and some
// of one beginning between two marks.
func part(ctx context.Context, s *filestore.Store) error {
	mark()
	defer mark()
	for _, rg := range []driver.Range{{Prefix: "ready/", Limit: 8}, {Prefix: "ready/", Limit: -8}, {Prefix: "ready/000007/"},
		{Prefix: "ready/", After: "ready/000300", Limit: 8}, {Prefix: "ready/", After: "ready/000300", Limit: -8}} {
		snap, err := s.Read(ctx, driver.Query{Ranges: []driver.Range{rg}})
		if err != nil || len(snap.Records) != max(1, rg.Limit, -rg.Limit) {
			return fmt.Errorf("%+v: %d records, %w", rg, len(snap.Records), err)
		}
	}
	return nil
}

// A new process finds a part of a kind without listing it, however large it is.
func TestSystemCallsOfAPart(t *testing.T) {
	calls := map[int]map[string]int{}
	for _, n := range []int{600, 6000} {
		dir := filepath.Join(t.TempDir(), "store")
		fill(t, dir, "ready/", n)
		if lists := traced(t, "part", dir)["getdents64"]; lists == 0 {
			t.Error("the first look listed nothing: the case has shown nothing")
		}
		calls[n] = traced(t, "part", dir)
		if calls[n]["getdents64"] > 0 {
			t.Errorf("%d records: the second look listed the folder", n)
		}
	}
	if few, many := calls[600]["all"], calls[6000]["all"]; many > few+50 { // the search takes some more steps
		t.Errorf("%d system calls among 600 records, %d among 6000: %v", few, many, calls)
	}
}
