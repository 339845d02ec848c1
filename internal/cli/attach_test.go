//go:build unix

package cli_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// attached is a command whose input is kept open.
type attached struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan attachedLine // closed at the end of its output
}

type attachedLine struct {
	Event string
	Data  struct {
		Token       int64
		Owner       string
		LeftSeconds float64
		Released    []struct{ Key string }
	}
	Error struct{ Code string }
}

func (s *session) attach(args ...string) *attached {
	s.t.Helper()
	at := &attached{t: s.t, cmd: s.command(append(args, "--attach", "--json")...), lines: make(chan attachedLine, 100)}
	var err error
	if at.in, err = at.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	out, err := at.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := at.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = at.cmd.Process.Kill() }) // for a test that failed half-way
	go func() {
		defer close(at.lines)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			var l attachedLine
			if json.Unmarshal(sc.Bytes(), &l) != nil {
				l.Event = "no JSON: " + sc.Text()
			}
			at.lines <- l
		}
	}()
	return at
}

// says waits for the next line, which must be that event.
func (at *attached) says(event string) attachedLine {
	at.t.Helper()
	select {
	case l, ok := <-at.lines:
		if !ok || l.Event != event {
			at.t.Fatalf("it said %q (%s), want %q", l.Event, l.Error.Code, event)
		}
		return l
	case <-time.After(time.Minute):
		at.t.Fatalf("it never said %q", event)
	}
	panic("unreachable")
}

// exits waits for the end, after which nothing more may be said.
func (at *attached) exits(want int) {
	at.t.Helper()
	if l, ok := <-at.lines; ok {
		at.t.Fatalf("it went on to say %q", l.Event)
	}
	err := at.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		at.t.Fatal(err)
	}
	if code := at.cmd.ProcessState.ExitCode(); code != want {
		at.t.Fatalf("exit %d, want %d", code, want)
	}
}

func (s *session) isFree(key string) bool {
	s.t.Helper()
	out, err := s.command("check", key).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "is free") {
		s.t.Fatalf("%v: %s", err, out)
	}
	return err != nil
}

func TestAttachHoldsWhileItsInputIsOpen(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	first := s.attach("acquire", "deploy")
	granted := first.says("acquired").Data
	if left := granted.LeftSeconds; left < 200 || left > 300 {
		t.Fatalf("%g seconds left of five minutes, from the call on", left)
	}
	token := granted.Token
	for range 3 {
		if _, err := io.WriteString(first.in, "\n"); err != nil {
			t.Fatal(err)
		}
		if left := first.says("held").Data.LeftSeconds; left < 200 || left > 300 {
			t.Fatalf("%g seconds left of five minutes", left)
		}
	}
	if _, err := io.WriteString(first.in, strings.Repeat("nobody asks for this ", 10_000)); err != nil {
		t.Fatal(err)
	}
	if s.isFree("deploy") {
		t.Fatal("it does not hold what it acquired")
	}
	second := s.attach("acquire", "deploy", "--wait", "30s") // the same owner, and yet another holder
	third := s.attach("acquire", "deploy", "--wait", "30s")
	for strings.Count(s.pipe("show", "deploy", "--json"), `"leaseId"`) < 3 { // its holder and two waiters
	}
	for range 3 {
		if _, err := io.WriteString(third.in, "\n"); err != nil {
			t.Fatal(err)
		}
		third.says("waiting")
	}
	if err := third.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	third.says("")
	third.exits(143)
	first.in.Close()
	first.says("released")
	first.exits(0)
	if next := second.says("acquired").Data.Token; next <= token {
		t.Fatalf("token %d after %d", next, token)
	}
	if err := second.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if l := second.says("released"); len(l.Data.Released) != 1 || l.Data.Released[0].Key != "deploy" {
		t.Fatalf("%+v", l)
	}
	second.exits(0)
	if !s.isFree("deploy") {
		t.Fatal("SIGTERM did not release")
	}
}

// Holders of one owner count as one in the search for a deadlock,
// unless each of them works by itself.
func TestAttachInACircle(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--independent"}} {
		s := newSession(t)
		hold := func(owner, key string) *attached {
			return s.attach(append([]string{"acquire", key, "--owner", owner, "--wait", "10m"}, flags...)...)
		}
		one, two := hold("dora", "one"), hold("emil", "two")
		one.says("acquired")
		two.says("acquired")
		waits := func(key string) {
			for strings.Count(s.pipe("show", key, "--json"), `"leaseId"`) < 2 {
			}
		}
		dora := hold("dora", "two")
		waits("two")
		emil := hold("emil", "one")
		if flags == nil {
			if code := emil.says("").Error.Code; code != "DEADLOCK" {
				t.Errorf("%q, want DEADLOCK", code)
			}
			emil.exits(6)
		} else {
			waits("one")
			one.in.Close()
			emil.says("acquired")
		}
		two.in.Close()
		dora.says("acquired")
	}
}

func TestAttachIsRenewed(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	at := s.attach("acquire", "deploy", "--ttl", "6s")
	at.says("acquired")
	other := s.command("acquire", "deploy", "--owner", "bob", "--wait", "9s")
	if out, err := other.CombinedOutput(); err == nil {
		t.Fatalf("taken from a living holder: %s", out)
	}
	at.in.Close()
	at.says("released")
	at.exits(0)
}

// TestAttachKilled: whether the holder dies or its client, the key is free at
// once, long before the ttl of five minutes.
func TestAttachKilled(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	at := s.attach("acquire", "deploy")
	at.says("acquired")
	if err := at.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = at.cmd.Wait()
	s.pipe("acquire", "deploy", "--no-wait")
	s.pipe("release", "deploy")

	// The client is a shell: its death closes the pipe of the command it started.
	self := s.command().Path
	client := exec.Command("sh", "-c", `sleep 60 | "$0" acquire deploy --attach --json`, self)
	client.Dir, client.Env = s.dir, s.env
	client.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, `"acquired"`) {
		t.Fatal(line, err)
	}
	if err := syscall.Kill(-client.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.pipe("acquire", "deploy", "--wait", "30s")
	_ = client.Wait()
}

// TestAttachLost: a holder reports a broken lease at once, and not at the next
// heartbeat; it reports one that expired while it was stopped when it wakes.
func TestAttachLost(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	at := s.attach("acquire", "deploy", "other", "--ttl", "24h")
	at.says("acquired")
	s.pipe("break", "other", "--reason", "test", "--owner", "bob")
	if l := at.says("lost"); l.Error.Code != "LEASE_LOST" {
		t.Fatalf("%+v", l)
	}
	at.exits(7)
	if !s.isFree("deploy") {
		t.Fatal("half a lease is left")
	}

	at = s.attach("acquire", "deploy", "--ttl", "2s")
	at.says("acquired")
	if err := at.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.pipe("acquire", "deploy", "--owner", "bob", "--wait", "30s")
	if err := at.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	at.says("lost")
	at.exits(7)
	if s.isFree("deploy") {
		t.Fatal("the late holder released what bob took over")
	}
}

// TestAttachWithoutItsStore: when no heartbeat gets through the lease is lost
// at its deadline, whatever the reason was.
func TestAttachWithoutItsStore(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.pipe("init", "--store", "store.db")
	at := s.attach("acquire", "deploy", "--ttl", "3s", "--store", "store.db")
	at.says("acquired")
	gate := exec.Command("sqlite3", "store.db") // holds the database, as a hanging disk would
	gate.Dir = s.dir
	gateIn, err := gate.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.Start(); err != nil {
		t.Fatal(err)
	}
	defer gate.Wait()
	defer gateIn.Close()
	if _, err := io.WriteString(gateIn, ".timeout 10000\nBEGIN IMMEDIATE;\n"); err != nil {
		t.Fatal(err)
	}
	at.says("lost")
	at.exits(7)
}

// TestAttachCompleted: a claim that its client completes is gone, and the work
// is kept.
func TestAttachCompleted(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.pipe("tasks", "add", "Fix bug")
	at := s.attach("tasks", "claim", "Fix bug")
	owner := at.says("acquired").Data.Owner
	s.pipe("tasks", "complete", "t1", "--summary", "done", "--owner", owner)
	at.says("lost")
	at.exits(7)
	if out := s.pipe("tasks", "show", "t1", "--json"); !strings.Contains(out, `"status":"completed"`) {
		t.Fatal(out)
	}
}
