//go:build linux

package torture

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
)

// TestKillAtEverySystemCall ends each operation by SIGKILL at each of its
// system calls: a new process sees exactly what was before or what is after,
// and goes on from there.
func TestKillAtEverySystemCall(t *testing.T) {
	needStrace(t)
	eachStage(t, func(t *testing.T, s *stage) {
		for try := range 8 { // calls that moved to another thread are counted anew there, and the last ones may be missed
			if try > 0 {
				s.countCalls(t, fmt.Sprint("again-", try))
			}
			points := s.points()
			kills, tried := s.killAt(t, points, func(p point, err error) { t.Errorf("killed at %s %d: %v", p.call, p.k, err) })
			t.Logf("%s: killed at %d of %d system calls, %d of them tried, %d times nothing had happened and %d times all of it",
				s.what, kills, len(points), tried, s.isBefore.Load(), s.isAfter.Load())
			if kills >= tried/2 && s.isBefore.Load() > 0 && s.isAfter.Load() > 0 {
				return
			}
		}
		t.Error("that shows nothing")
	})
}

// eachStage runs a test for each operation on each backend that is a folder.
func eachStage(t *testing.T, test func(t *testing.T, s *stage)) {
	eachFolder(t, func(t *testing.T, b backend) {
		for _, o := range operations {
			t.Run(o.what, func(t *testing.T) { test(t, newStage(t, b, o)) })
		}
	})
}

// TestKillFindsHalfAnOperation plants an acquire that writes in two steps: the
// same test must find the moment between them.
func TestKillFindsHalfAnOperation(t *testing.T) {
	needStrace(t)
	i := slices.IndexFunc(operations, func(o operation) bool { return o.what == "acquire" })
	eachFolder(t, func(t *testing.T, b backend) {
		s := newStage(t, b, operations[i])
		s.bug = "lock_before_lease"
		var found atomic.Int64
		s.killAt(t, s.points(), func(point, error) { found.Add(1) })
		if found.Load() == 0 {
			t.Fatal("the bug was not seen")
		}
		t.Logf("caught at %d system calls", found.Load())
	})
}

// killAt ends the operation at each point, and tells where the store was not
// sound afterwards. It returns how many were really killed, and how many tried.
func (s *stage) killAt(t *testing.T, points []point, report func(point, error)) (killing, tried int) {
	var kills atomic.Int64
	tried = sampled(4, points, func(p point) {
		dir := s.copy(t, fmt.Sprintf("kill-%s-%d", p.call, p.k))
		defer os.RemoveAll(dir)
		out, err := s.command(dir, inject(p, "signal=SIGKILL", ""), s.args...).Output()
		if killed(err) {
			kills.Add(1)
		}
		if err := s.sound(dir, acknowledged(out)); err != nil {
			report(p, err)
		}
	})
	return int(kills.Load()), tried
}

// inject makes strace do something at that point, and with "+" at all later
// ones too.
func inject(p point, what, more string) []string {
	return []string{
		"-o", "/dev/null", "-e", "trace=" + p.call,
		"-e", fmt.Sprintf("inject=%s:%s:when=%d%s", p.call, what, p.k, more),
	}
}

// failures are what a disk, or the kernel, may answer.
var failures = map[string][]string{
	"pwrite64":  {"EIO", "ENOSPC", "EDQUOT"},
	"fsync":     {"EIO"},
	"fdatasync": {"EIO"},
	"ftruncate": {"EIO", "ENOSPC"},
	"fallocate": {"ENOSPC"},
	"mkdirat":   {"ENOSPC", "EROFS"},
	"renameat":  {"EIO", "ENOSPC"},
	"renameat2": {"EIO", "ENOSPC"},
	"unlinkat":  {"EIO"},
	"open":      {"EMFILE", "EIO"},
	"flock":     {"ENOLCK"},
}

// TestErrorAtEverySystemCall lets each system call that touches the store
// fail, once or from then on: what is acknowledged is there, anything else is
// a clear error with its exit code, and when the fault is gone all goes on.
func TestErrorAtEverySystemCall(t *testing.T) {
	needStrace(t)
	eachStage(t, func(t *testing.T, s *stage) {
		type fault struct {
			point
			errno, more string
		}
		var faults []fault
		for _, p := range s.points() {
			for _, errno := range failures[p.call] {
				faults = append(faults, fault{p, errno, ""}, fault{p, errno, "+"})
			}
		}
		if !full() {
			faults = slices.DeleteFunc(faults, func(f fault) bool { return (f.k+len(f.errno)+len(f.more))%3 != 0 })
		}
		codes := [256]atomic.Int64{}
		tried := sampled(4, faults, func(f fault) {
			name := fmt.Sprintf("%s-%d%s-%s", f.call, f.k, f.more, f.errno)
			dir := s.copy(t, name)
			defer os.RemoveAll(dir)
			out, err := s.command(dir, inject(f.point, "error="+f.errno, f.more), s.args...).Output()
			code, text := 0, ""
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				code, text = exit.ExitCode(), string(out)+string(exit.Stderr)
			}
			codes[code&255].Add(1)
			if !slices.Contains(exitCodes(f.call), code) || code != 0 && text == "" || acknowledged(out) != (code == 0) {
				t.Errorf("%s: exit %d, %s", name, code, text)
			}
			if err := s.sound(dir, acknowledged(out)); err != nil {
				t.Errorf("%s, exit %d: %v", name, code, err)
			}
		})
		seen := map[int]int64{}
		for i := range codes {
			if n := codes[i].Load(); n > 0 {
				seen[i] = n
			}
		}
		t.Logf("%s: %d of %d faults, exit codes %v, %d times nothing had happened and %d times all of it",
			s.what, tried, len(faults), seen, s.isBefore.Load(), s.isAfter.Load())
	})
}

// exitCodes are those that a failed call may lead to. A file that cannot be
// opened for writing looks to SQLite like one that may not.
func exitCodes(call string) []int {
	if call == "open" || call == "mkdirat" {
		return []int{0, 5, 8, 10}
	}
	return []int{0, 8, 10}
}
