//go:build linux

package filestore_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/filestore"
)

// calls are the system calls by which a commit changes anything, or looks, and
// how many of them the short form leaves out.
var calls = map[string]int{
	"pwrite64": 5, "write": 7, "fdatasync": 3, "fsync": 3, "renameat2": 5, "renameat": 1, "unlinkat": 1, "mkdirat": 2, "ftruncate": 2,
	"openat": 41, "flock": 11,
}

// torture asks for the long forms.
var torture = long.Asked()

// A process that is killed at any of its system calls leaves the store as it
// was before a commit or as it is after it, for whoever comes next.
func TestKilledAtEverySystemCall(t *testing.T) {
	long.NotShort(t) // kills processes by the dozen
	needTool(t, "strace", "strace")
	runs := 0
	for call, step := range calls {
		if torture {
			step = 1
		}
		for k := 1 + len(call)%step; ; k += step {
			dir := filepath.Join(t.TempDir(), "store")
			out, killed := inject(t, dir, call, fmt.Sprintf("signal=SIGKILL:when=%d", k))
			if !killed {
				break
			}
			runs++
			if bad := afterCrash(t, dir, strings.Count(out, "ok\n")); bad != "" {
				t.Fatalf("killed before %s number %d, after\n%s%s", call, k, out, bad)
			}
		}
	}
	if runs < 30 {
		t.Errorf("only %d processes were killed: the case has shown nothing", runs)
	}
	t.Logf("%d processes were killed", runs)
}

// afterCrash checks a store of whose steps some were acknowledged. It returns
// what is wrong.
func afterCrash(t *testing.T, dir string, acked int) string {
	t.Helper()
	got, rev, err := all(t, dir)
	if err != nil {
		return err.Error()
	}
	steps := acked
	if rev == int64(acked)+1 { // the one that it died in
		steps++
	}
	if want := after(steps); rev != int64(steps) || !maps.Equal(got, want) {
		return fmt.Sprintf("%d steps were acknowledged, revision %d, %s", acked, rev, difference(got, want))
	}
	s, err := filestore.Open(t.Context(), dir, nil)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = s.Close() }()
	next, err := s.Commit(t.Context(), step(steps))
	if err != nil || next != rev+1 {
		return fmt.Sprintf("the next commit got revision %d after %d, error %v", next, rev, err)
	}
	if got, _, err = all(t, dir); err != nil || !maps.Equal(got, after(steps+1)) {
		return fmt.Sprintf("after the next commit: %v, %s", err, difference(got, after(steps+1)))
	}
	r, err := filestore.Inspect(t.Context(), dir)
	if err != nil || len(r.Problems) > 0 {
		return fmt.Sprintf("%q %v", r.Problems, err)
	}
	return ""
}

func difference(got, want map[string]string) string {
	var b strings.Builder
	for k, v := range want {
		if got[k] != v {
			fmt.Fprintf(&b, "%s is %.40q, want %.40q; ", k, got[k], v)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			fmt.Fprintf(&b, "%s should be gone; ", k)
		}
	}
	return b.String()
}

// An error of any system call is an answer, or does not matter: what was
// acknowledged is there, and when the error is gone everything works.
func TestErrorAtEverySystemCall(t *testing.T) {
	long.NotShort(t) // kills processes by the dozen
	needTool(t, "strace", "strace")
	failed := 0
	for _, fault := range []string{
		"fdatasync EIO", "fsync EIO", "pwrite64 EIO", "pwrite64 ENOSPC", "write ENOSPC", "renameat2 EIO", "renameat2 ENOSPC",
		"ftruncate EIO", "mkdirat ENOSPC", "openat EMFILE", "openat EIO", "pread64 EIO", "read EIO", "newfstatat EIO", "getdents64 EIO",
	} {
		call, errno, _ := strings.Cut(fault, " ")
		step := 1
		if !torture {
			step = 13
			if call == "openat" || call == "newfstatat" || call == "read" {
				step = 53
			}
		}
		for k := 1 + len(fault)%step; ; k += step {
			dir := filepath.Join(t.TempDir(), "store")
			spec := fmt.Sprintf("error=%s:when=%d", errno, k)
			out, _ := inject(t, dir, call, spec)
			if k > 1500 || !strings.Contains(out, "INJECTED") {
				break
			}
			if bad := afterErrors(t, dir, out); bad != "" {
				t.Fatalf("%s with %s:\n%s\n%s", call, spec, out, bad)
			}
			failed += strings.Count(out, "error: ")
		}
	}
	if failed == 0 {
		t.Error("nothing failed: the case has shown nothing")
	}
	t.Logf("%d commits failed", failed)
}

// afterErrors checks a store after a process that met errors. A step that
// failed may have happened; one that is said to have happened did.
func afterErrors(t *testing.T, dir, out string) string {
	t.Helper()
	if !strings.Contains(out, "end\n") { // it could not even open it, or start
		if _, _, err := all(t, dir); err != nil {
			return err.Error()
		}
		return ""
	}
	var lines []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "ok") || strings.HasPrefix(line, "error: ") {
			lines = append(lines, line)
		} else if strings.HasPrefix(line, "damaged") {
			return "an error was taken for damage: " + line
		}
	}
	got, _, err := all(t, dir)
	if err != nil {
		return err.Error()
	}
	possible := []map[string]string{{}}
	for i, line := range lines {
		var next []map[string]string
		for _, m := range possible {
			with := maps.Clone(m)
			for _, w := range step(i).Writes {
				if w.Value == nil {
					delete(with, w.Key)
				} else {
					with[w.Key] = string(w.Value)
				}
			}
			next = append(next, with)
			if strings.HasPrefix(line, "error: ") {
				next = append(next, m)
			}
		}
		possible = next
	}
	for _, m := range possible {
		if maps.Equal(m, got) {
			if err := use(t, dir); err != nil {
				return "without the fault: " + err.Error()
			}
			return ""
		}
	}
	return "state is " + difference(got, possible[0])
}

// inject runs the short story in a process that meets a fault, and returns
// what it said.
func inject(t *testing.T, dir, call, fault string) (out string, killed bool) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command("strace", "-f", "-qq", "-o", trace, "-e", "trace="+call, "-e", "inject="+call+":"+fault, exe)
	cmd.Env = append(os.Environ(), envJob+"=steps", envDir+"="+dir, envLimit+"=1200", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	text, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() == 0 {
		t.Fatal(err)
	}
	traced, err := os.ReadFile(trace)
	must(t, err)
	out = string(text)
	if strings.Contains(string(traced), "(INJECTED)") {
		out += "INJECTED\n"
	}
	return out, strings.Contains(string(traced), "killed by SIGKILL")
}

func needTool(t *testing.T, tool, pkg string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Fatalf("%s is missing; run: apt-get install %s", tool, pkg)
	}
}

// A process that is killed while it makes an index leaves nothing that others
// would take for one.
func TestKilledWhileIndexing(t *testing.T) {
	long.NotShort(t)
	needTool(t, "strace", "strace")
	from := filepath.Join(t.TempDir(), "from")
	fill(t, from, "ready/", 300)
	exe, err := os.Executable()
	must(t, err)
	runs := 0
	for call, step := range map[string]int{"write": 1, "renameat": 1, "mkdirat": 1, "unlinkat": 1, "openat": 3, "flock": 2} {
		for k := 1; ; k += step {
			dir := filepath.Join(t.TempDir(), "store")
			must(t, os.CopyFS(dir, os.DirFS(from)))
			must(t, os.Chmod(dir, 0o700))
			s := open(t, dir) // begins a life
			_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "ready/000003/x"}}})
			must(t, err)
			trace := filepath.Join(t.TempDir(), "trace")
			cmd := command(t, "part", dir, "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
			cmd.Args = []string{"strace", "-f", "-qq", "-o", trace, "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", call, k), exe}
			cmd.Path, _ = exec.LookPath("strace")
			_ = cmd.Run()
			traced, err := os.ReadFile(trace)
			must(t, err)
			sameParts(t, s, k)
			if !strings.Contains(string(traced), "killed by SIGKILL") {
				break
			}
			runs++
		}
	}
	if runs < 10 {
		t.Errorf("only %d processes were killed: the case has shown nothing", runs)
	}
}
