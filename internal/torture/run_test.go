//go:build linux

package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

// A field is a store and a register in which commands run under leases.
type field struct {
	place
	binary string
	shared string // the folder with the register
	reg    *register
	ttl    time.Duration
}

func newField(t *testing.T, b backend, ttl time.Duration) *field {
	t.Helper()
	f := &field{place: b.place(t), binary: command(t), shared: tempDir(t), ttl: ttl}
	var err error
	f.reg, err = openRegister(filepath.Join(f.shared, "register"))
	must(t, err)
	return f
}

// tasklock runs a command and returns its exit code and what it said.
func (f *field) tasklock(args ...string) (int, string) {
	cmd := exec.Command(f.binary, append([]string{"--store", f.url, "--json"}, args...)...)
	cmd.Env = f.env(0)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// A job is a command that "tasklock run" has started.
type job struct {
	wrapper         *exec.Cmd
	token           int64
	lease           string
	child, guardian int
	in              chan struct{} // closed when the command works
	done            chan struct{} // closed when the wrapper has ended
	said            bytes.Buffer  // by the wrapper

	mu    sync.Mutex
	lines []string // of the command
}

// start runs a command on the key that works for hold. before stands in front
// of the command line, bug is planted.
func (f *field) start(key, row int, hold time.Duration, deaf bool, bug string, before ...string) (*job, error) {
	spec, err := json.Marshal(childSpec{Dir: f.shared, Keys: []string{keyName(key)}, Row: row, Hold: hold, Deaf: deaf})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	line := append(before, f.binary, "--store", f.url, "run", keyName(key), "--owner", rootOwner,
		"--ttl", f.ttl.String(), "--wait", "1m", "--", self, "-test.run=^$")
	j := &job{wrapper: exec.Command(line[0], line[1:]...), in: make(chan struct{}), done: make(chan struct{})}
	j.wrapper.Env = append(f.env(row), childEnv+"="+string(spec), "TASKLOCK_FAULT_BUG="+bug, "GOMAXPROCS=1")
	j.wrapper.Stderr = &j.said
	j.wrapper.WaitDelay = time.Second
	out, err := j.wrapper.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := j.wrapper.Start(); err != nil {
		return nil, err
	}
	go j.follow(bufio.NewScanner(out))
	return j, nil
}

// successor starts a command that takes over, and keeps what it takes, however
// busy the machine is.
func (f *field) successor(key, row int, hold time.Duration) (*job, error) {
	patient := *f
	patient.ttl = time.Minute
	return patient.start(key, row, hold, false, "")
}

func (j *job) follow(lines *bufio.Scanner) {
	for lines.Scan() {
		j.mu.Lock()
		j.lines = append(j.lines, lines.Text())
		j.mu.Unlock()
		if n, _ := fmt.Sscanf(lines.Text(), "in %d %s %d %d", &j.token, &j.lease, &j.child, &j.guardian); n == 4 {
			close(j.in)
		}
	}
	_ = j.wrapper.Wait()
	close(j.done)
}

// spoke reports whether the command has said a line that begins so.
func (j *job) spoke(word string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lines {
		if strings.HasPrefix(l, word) {
			return true
		}
	}
	return false
}

// end ends whatever is left of the job.
func (j *job) end() {
	for _, pid := range []int{j.child, j.guardian, j.wrapper.Process.Pid} {
		if pid > 0 && runs(pid) {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	_ = j.wrapper.Process.Signal(syscall.SIGTERM)
	if within(20*time.Second, j.done) != nil {
		_ = j.wrapper.Process.Kill()
		_ = within(time.Minute, j.done)
	}
}

func within(d time.Duration, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-time.After(d):
		return fmt.Errorf("not after %v", d)
	}
}

// runs reports whether the process exists and is not a zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	rest := stat[bytes.LastIndexByte(stat, ')')+1:]
	return !bytes.HasPrefix(rest, []byte(" Z")) && !bytes.HasPrefix(rest, []byte(" X"))
}

// TestStoppedHolder stops what runs under a lease for three times its ttl,
// and lets another take over. Then the old command ends, its wrapper exits with 7, none of its writes is accepted, and its end
// changes nothing.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		t.Parallel() // they mostly sleep
		ttl, each := max(3*time.Second, b.ttl), 1
		if full() {
			each = long.Count(max(1, 24/int(ttl/time.Second)))
		}
		type round struct{ whole, deaf bool }
		var all []round
		for i := range 4 * each {
			all = append(all, round{whole: i%2 == 0, deaf: i/2%2 == 0})
		}
		inParallel(4, all, func(r round) {
			if err := newField(t, b, ttl).stopRound(r.whole, r.deaf); err != nil {
				t.Errorf("everything stopped: %v, deaf to TERM: %v: %v", r.whole, r.deaf, err)
			}
		})
		t.Logf("%d holders stopped for 3 x %v, half of them whole, half of them only the wrapper", len(all), ttl)
	})
}

func (f *field) stopRound(whole, deaf bool) error {
	old, err := f.start(0, 1, time.Minute, deaf, "")
	if err != nil {
		return err
	}
	defer old.end()
	if err := within(2*time.Minute, old.in); err != nil {
		return fmt.Errorf("the command does not start: %w: %s", err, &old.said)
	}
	pids := []int{old.wrapper.Process.Pid}
	if whole {
		pids = append(pids, old.guardian, old.child)
	}
	stopped, err := f.stop(pids)
	if err != nil {
		return err
	}
	next, err := f.successor(0, 2, time.Minute)
	if err != nil {
		return err
	}
	defer next.end()
	if err := within(2*f.ttl+time.Minute, next.in); err != nil {
		return fmt.Errorf("nobody can take over: %w: %s", err, &next.said)
	}
	if !whole && runs(old.child) {
		return fmt.Errorf("the lease was given away while the command works")
	}
	time.Sleep(time.Until(stopped.Add(3 * f.ttl)))
	signalAll(pids, syscall.SIGCONT)
	return f.afterwards(0, whole, old, next)
}

// stop stops the processes at a moment when none of them is in the middle of
// a commit: there, a stopped one stops everybody (see package sqlitestore).
func (f *field) stop(pids []int) (time.Time, error) {
	for range 20 {
		stopped := time.Now()
		signalAll(pids, syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(context.Background(), f.ttl/2)
		probe := exec.CommandContext(ctx, f.binary, "--store", f.url, "acquire", "free", "--owner", "probe", "--no-wait")
		probe.Env = f.env(0)
		err := probe.Run()
		cancel()
		if err == nil {
			return stopped, nil
		}
		signalAll(pids, syscall.SIGCONT)
		time.Sleep(10 * time.Millisecond)
	}
	return time.Time{}, errors.New("nobody else can commit")
}

func signalAll(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

// afterwards is what must be true once the old holder goes on.
func (f *field) afterwards(key int, whole bool, old, next *job) error {
	// Counted in steps: on a busy machine every process gets less than its time.
	const step = 5 * time.Millisecond
	const limit = time.Minute
	for n := time.Duration(0); runs(old.child); n += step {
		if n > limit {
			return fmt.Errorf("the old command lives %v after SIGCONT", limit)
		}
		time.Sleep(step)
	}
	if err := within(2*time.Minute, old.done); err != nil {
		return fmt.Errorf("the wrapper does not end: %w", err)
	}
	if code := old.wrapper.ProcessState.ExitCode(); code != 7 {
		return fmt.Errorf("exit %d instead of 7: %s", code, &old.said)
	}
	if old.spoke("out") || !whole && old.spoke("pushed") {
		return fmt.Errorf("the old command worked on: %v", old.lines)
	}
	if e := f.reg.at(key); e != newEntry(next.token, 2, true) {
		return fmt.Errorf("in the register is %v instead of token %d", e, next.token)
	}
	if code, out := f.tasklock("check", keyName(key), "--token", fmt.Sprint(next.token)); code != 0 {
		return fmt.Errorf("the new holder's token is not in force any more: exit %d, %s", code, out)
	}
	return nil
}

// TestReplyComesLate delays the return from the commit of "run" for longer
// than its ttl. The time of trust began with the call: the command must not
// work. With the deadline counted from the reply it would.
func TestReplyComesLate(t *testing.T) {
	t.Parallel() // it mostly sleeps
	needStrace(t)
	late := replyLate(t, "")
	if late.spoke("pushed") {
		t.Errorf("the command worked though its lease was taken over: %v", late.lines)
	}
	if code := late.wrapper.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit %d instead of 7: %s", code, &late.said)
	}
	for range attempts { // on a busy machine its next heartbeat may come before its command has begun
		if late = replyLate(t, "deadline_from_reply"); late.spoke("pushed") {
			return
		}
	}
	t.Errorf("the bug was not seen: %v %s", late.lines, &late.said)
}

// replyLate runs a command that learns of its grant when another already has the key.
func replyLate(t *testing.T, bug string) (late *job) {
	t.Helper()
	f := newField(t, sqlite, time.Second)
	if code, out := f.tasklock("acquire", "other", "--owner", "o", "--no-wait"); code != 0 { // makes the store
		t.Fatal(out)
	}
	// The second flock opens the gate after the commit.
	late, err := f.start(0, 1, 3*time.Second, false, bug,
		"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=flock", "-e", "inject=flock:delay_exit=2500000:when=2", "--")
	must(t, err)
	for { // until it has the lock, or had it
		if _, out := f.tasklock("history", keyName(0)); strings.Contains(out, `"acquired"`) {
			break
		}
	}
	next, err := f.successor(0, 2, 4*time.Second)
	must(t, err)
	defer next.end()
	if err := within(2*time.Minute, next.in); err != nil {
		t.Fatalf("nobody can take over: %v: %s", err, &next.said)
	}
	if err := within(time.Minute, late.done); err != nil {
		t.Fatal("the late one does not end")
	}
	return late
}

// TestHeartbeatAfterBreak breaks the lock under a running command and gives
// it to someone else: the next heartbeat must find out, and change nothing.
func TestHeartbeatAfterBreak(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		t.Parallel()
		if taken := newField(t, b, b.ttl).breakUnder(t, ""); taken != "" {
			t.Error("the old holder took the lock back: " + taken)
		}
		for range attempts { // on a busy machine its time may be over before its next heartbeat
			if newField(t, b, b.ttl).breakUnder(t, "renew_unchecked") != "" {
				return
			}
		}
		t.Error("the bug was not seen")
	})
}

// breakUnder says how the new holder's token was found not to be in force any
// more, if it was.
func (f *field) breakUnder(t *testing.T, bug string) (taken string) {
	old, err := f.start(0, 1, time.Minute, false, bug)
	must(t, err)
	defer old.end()
	if err := within(2*time.Minute, old.in); err != nil {
		t.Fatalf("the command does not start: %s", &old.said)
	}
	if code, out := f.tasklock("break", keyName(0), "--owner", "admin", "--reason", "torture"); code != 0 {
		t.Fatal(out)
	}
	if code, out := f.tasklock("acquire", keyName(0), "--owner", "next", "--no-wait"); code != 0 {
		t.Fatal(out)
	}
	token := fmt.Sprint(f.token(t))
	ended := within(2*f.ttl, old.done)
	if bug == "" && (ended != nil && within(2*time.Minute, old.done) != nil || old.wrapper.ProcessState.ExitCode() != 7) {
		t.Errorf("the old holder does not end with 7: %s", &old.said)
	}
	if code, out := f.tasklock("check", keyName(0), "--token", token); code != 0 {
		return fmt.Sprintf("exit %d, %s", code, out)
	}
	return ""
}

// token is that in force on the first key.
func (f *field) token(t *testing.T) int64 {
	t.Helper()
	_, out := f.tasklock("check", keyName(0))
	var r struct {
		Data struct{ Lock struct{ Token int64 } }
	}
	must(t, json.Unmarshal([]byte(out), &r))
	return r.Data.Lock.Token
}
