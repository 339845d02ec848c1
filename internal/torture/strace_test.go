//go:build linux

package torture

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

// calls are the system calls that can change a store or say something about
// it; what lies between two of them is not visible to anyone else.
const calls = "write,pwrite64,fsync,fdatasync,ftruncate,fallocate,open,openat,link,linkat,mkdir,mkdirat," +
	"rename,renameat,renameat2,unlink,unlinkat,chmod,fchmod,fchmodat,fchown,utimensat,flock,fcntl"

// needStrace says what is missing, or that the environment forbids it.
func needStrace(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatal("strace is missing; run: apt-get install strace")
	}
	if out, err := exec.Command("strace", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: this environment does not allow ptrace, so no system call can be made to fail: %v %s", err, out)
	}
}

// An operation is a command whose every system call is disturbed, on a store
// that prepare has made.
type operation struct {
	what    string
	prepare [][]string
	wait    time.Duration // until the prepared leases have expired
	moved   bool          // the store was copied since, which some backends take for a restart
	args    []string
}

const shortTTL = "400ms"

// patience is how long the next one waits for what a crash left behind.
const patience = "2m"

var operations = []operation{
	{what: "first", args: []string{"acquire", "k", "--owner", "a", "--request-id", "r1", "--ttl", shortTTL, "--no-wait"}},
	{
		what:    "acquire",
		prepare: [][]string{{"acquire", "other", "--owner", "o", "--no-wait"}},
		args:    []string{"acquire", "k", "--owner", "a", "--request-id", "r1", "--ttl", shortTTL, "--no-wait"},
	},
	{
		what:    "acquire after a move",
		prepare: [][]string{{"acquire", "other", "--owner", "o", "--no-wait"}},
		moved:   true,
		args:    []string{"acquire", "k", "--owner", "a", "--request-id", "r1", "--ttl", shortTTL, "--no-wait"},
	},
	{
		what:    "batch",
		prepare: [][]string{{"acquire", "other", "--owner", "o", "--no-wait"}},
		args:    []string{"acquire", "k", "k2", "k3", "--owner", "a", "--request-id", "r1", "--ttl", shortTTL, "--no-wait"},
	},
	{
		what:    "take-over",
		prepare: [][]string{{"acquire", "k", "k4", "--owner", "o", "--request-id", "r0", "--ttl", "100ms", "--no-wait"}},
		wait:    150 * time.Millisecond,
		args:    []string{"acquire", "k", "--owner", "a", "--request-id", "r1", "--ttl", shortTTL, "--no-wait"},
	},
	{
		what:    "renew",
		prepare: [][]string{{"acquire", "k", "--owner", "a", "--request-id", "r1", "--ttl", shortTTL, "--no-wait"}},
		args:    []string{"heartbeat", "k", "--owner", "a"},
	},
	{
		what:    "release",
		prepare: [][]string{{"acquire", "k", "--owner", "a", "--request-id", "r1", "--ttl", shortTTL, "--no-wait"}},
		args:    []string{"release", "k", "--owner", "a"},
	},
	{
		what: "complete",
		prepare: [][]string{
			{"tasks", "add", "one", "--id", "k", "--owner", "o"},
			{"tasks", "add", "two", "--id", "k2", "--depends-on", "k", "--owner", "o"},
			{"tasks", "claim", "k", "--owner", "a", "--request-id", "r1", "--ttl", shortTTL, "--no-wait"},
		},
		args: []string{"tasks", "complete", "k", "--owner", "a", "--summary", "done"},
	},
}

// A stage holds an operation ready to be done again and again on copies of
// one store.
type stage struct {
	backend
	operation
	worker, binary    string
	bug               string // planted in the operation when it is disturbed
	dir               string // holds the prepared store, and copies of it
	before, after     Dump
	counts            map[string]int // how often each system call is done
	isBefore, isAfter atomic.Int64   // what was found
}

func newStage(t *testing.T, b backend, o operation) *stage {
	t.Helper()
	s := &stage{backend: b, operation: o, worker: workerProgram(t), binary: command(t), dir: tempDir(t)}
	ready := filepath.Join(s.dir, "ready")
	must(t, os.Mkdir(ready, 0o700))
	for _, args := range o.prepare {
		if out, err := s.command(ready, nil, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	time.Sleep(o.wait)
	var err error
	s.before, err = s.read(s.copy(t, "before"))
	must(t, err)

	s.after, err = s.read(s.countCalls(t, "after"))
	must(t, err)

	again := s.copy(t, "again")
	if out, err := s.command(again, nil, s.args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", s.args, err, out)
	}
	if d, err := s.read(again); err != nil || !same(d, s.after) {
		t.Fatalf("doing it twice gives two results, so nothing can be compared: %v\n%s", err, differ(d, s.after))
	}
	if same(s.before, s.after) {
		t.Fatal("the operation changes nothing")
	}
	return s
}

// countCalls does the operation on a copy, and notes its system calls.
func (s *stage) countCalls(t *testing.T, name string) (dir string) {
	t.Helper()
	trace := filepath.Join(s.dir, "trace")
	dir = s.copy(t, name)
	if out, err := s.command(dir, []string{"-o", trace, "-e", "trace=" + calls}, s.args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", s.args, err, out)
	}
	var err error
	s.counts, err = countCalls(trace)
	must(t, err)
	return dir
}

// command is tasklock on the store in dir, with inject under strace. One
// processor keeps the system calls on one thread, where strace counts them.
func (s *stage) command(dir string, inject []string, args ...string) *exec.Cmd {
	line := append([]string{s.binary, "--store", s.at(dir), "--json"}, args...)
	if inject != nil {
		line = append(append([]string{"strace", "-f", "-qq"}, inject...), append([]string{"--"}, line...)...)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(cleanEnv(), "GOMAXPROCS=1")
	if inject != nil {
		cmd.Env = append(cmd.Env, "TASKLOCK_FAULT_BUG="+s.bug)
	}
	return cmd
}

func (s *stage) read(dir string) (Dump, error) { return ReadFresh(s.worker, s.at(dir)) }

// copy makes a copy of the prepared store.
func (s *stage) copy(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(s.dir, name)
	out, err := exec.Command("cp", "-a", filepath.Join(s.dir, "ready"), dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !s.moved && s.prepare != nil {
		if out, err := s.command(dir, nil, "acquire", "warm", "--owner", "w", "--request-id", "w", "--no-wait").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return dir
}

// sound requires that the store in dir is as it was before, or as after, and
// that whoever comes next gets the key, with a token that was never used.
func (s *stage) sound(dir string, acknowledged bool) error {
	d, err := s.read(dir)
	if err != nil {
		return err
	}
	switch {
	case same(d, s.after):
		s.isAfter.Add(1)
	case acknowledged:
		return fmt.Errorf("acknowledged, but not there; against after:\n%s", differ(s.after, d))
	case same(d, s.before), same(unrenewed(d, s.before), s.before):
		s.isBefore.Add(1)
	default:
		return fmt.Errorf("neither before nor after; against before:\n%sagainst after:\n%s", differ(s.before, d), differ(s.after, d))
	}
	out, err := s.command(dir, nil, "acquire", "k", "--owner", "next", "--wait", patience).Output()
	if err != nil {
		return fmt.Errorf("the next acquire: %w: %s", err, out)
	}
	var r struct{ Data struct{ Token int64 } }
	if err := json.Unmarshal(out, &r); err != nil {
		return err
	}
	if used := max(d.MaxRev(), s.after.MaxRev()*b2i(acknowledged)); r.Data.Token <= used {
		return fmt.Errorf("token %d, but %d was used before", r.Data.Token, used)
	}
	if wrong := append(s.damage(s.at(dir), dir), s.leftovers(dir)...); len(wrong) > 0 {
		return fmt.Errorf("the store is not whole: %q", wrong)
	}
	return nil
}

var callName = regexp.MustCompile(`^\d+\s+(\w+)\(`)

// countCalls counts how often the busiest thread does each call.
func countCalls(trace string) (map[string]int, error) {
	raw, err := os.ReadFile(trace)
	if err != nil {
		return nil, err
	}
	threads := map[string]map[string]int{}
	counts := map[string]int{}
	for l := range strings.Lines(string(raw)) {
		m := callName.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		thread, _, _ := strings.Cut(l, " ")
		if threads[thread] == nil {
			threads[thread] = map[string]int{}
		}
		threads[thread][m[1]]++
		counts[m[1]] = max(counts[m[1]], threads[thread][m[1]])
	}
	return counts, nil
}

// A point is the k-th time that a system call is done.
type point struct {
	call string
	k    int
}

// points lists all of them. Those of fcntl, which locks and unlocks, and those
// that open a file are many and alike: the short form takes some.
func (s *stage) points() []point {
	var all []point
	for call, n := range s.counts {
		step := 1
		switch {
		case full():
		case call == "fcntl":
			step = 10
		case call == "openat":
			step = 6
		}
		for k := 1; k <= n; k += step {
			all = append(all, point{call, k})
		}
	}
	return all
}

// acknowledged reports whether the command said that it was done.
func acknowledged(stdout []byte) bool {
	var r struct{ Success bool }
	return json.Unmarshal(bytes.TrimSpace(stdout), &r) == nil && r.Success
}

func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// unrenewed is a dump without heartbeats: every command renews what its owner
// holds and is due, also one that fails.
func unrenewed(d, before Dump) Dump {
	out := maps.Clone(d)
	for key, was := range before {
		if now, ok := d[key]; ok && strings.HasPrefix(key, "lease/") && reflect.DeepEqual(now.Value, was.Value) {
			out[key] = was
		}
	}
	return out
}

func same(a, b Dump) bool { return differ(a, b) == "" }

// differ lists the records in which two dumps differ.
func differ(wanted, found Dump) string {
	want, got := ranked(wanted), ranked(found)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if want[key] != got[key] {
			fmt.Fprintf(&b, "  %s: want %s, got %s\n", key, want[key], cmp.Or(got[key], "none"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if want[key] == "" {
			fmt.Fprintf(&b, "  %s: want none, got %s\n", key, got[key])
		}
	}
	return b.String()
}

// ranked counts revisions 1, 2, 3: a commit that had to be repeated has a
// later one, and nothing else changes.
func ranked(d Dump) map[string]string {
	var revs []int64
	for _, e := range d {
		revs = append(revs, e.Rev)
	}
	slices.Sort(revs)
	revs = slices.Compact(revs)
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(d)) {
		rank := slices.Index(revs, d[key].Rev) + 1
		name := key
		if kind, rest, _ := strings.Cut(key, "/"); kind == "event" {
			name = fmt.Sprintf("event/%d%s", rank, strings.TrimLeft(rest, "0123456789"))
		}
		out[name] = fmt.Sprintf("%v at %d", d[key].Value, rank)
	}
	return out
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sampled does all points, n at a time, or in the long form as many of them, at
// random, as the share of one test in an operation allows. It returns how many.
func sampled[T any](n int, all []T, do func(T)) int {
	if !full() {
		inParallel(n, all, do)
		return len(all)
	}
	all = slices.Clone(all)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var done atomic.Int64
	end := time.Now().Add(long.Time(15 * time.Second))
	inParallel(n, all, func(p T) {
		if time.Now().Before(end) {
			do(p)
			done.Add(1)
		}
	})
	return int(done.Load())
}

// inParallel does all points, n at a time.
func inParallel[T any](n int, all []T, do func(T)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, n)
	for _, p := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(p)
		})
	}
	wg.Wait()
}
