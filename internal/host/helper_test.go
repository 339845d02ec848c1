//go:build linux || darwin

package host

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// The test binary runs itself again as another process: another user, another
// namespace. It reads one question from its environment and answers in JSON.

const (
	askVariable = "HOST_TEST_ASK"
	refused     = 77
)

type question struct {
	Do    string // first: "mount proc", "hide processes", "end main thread"
	About Process
	Group int
}

type answer struct {
	Self, Child Process
	Life        Life // of About
	SelfLife    Life
	FormerLife  Life // of an older process under our own pid
	ChildLife   Life // of a child found by pid
	GroupLife   Life
	Domain      string
	Terminal    string
	Session     string
}

func init() {
	if os.Getenv(askVariable) != "" {
		runtime.LockOSThread() // keeps main on the main thread, which one question ends
	}
}

func TestMain(m *testing.M) {
	raw := os.Getenv(askVariable)
	if raw == "" {
		os.Exit(m.Run())
	}
	os.Unsetenv(askVariable)
	var q question
	must(json.Unmarshal([]byte(raw), &q))
	reply(q)
}

// must ends the second process with a code that says its stage was refused.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(refused)
	}
}

func reply(q question) {
	switch q.Do {
	case "end main thread":
		endMainThread()
	case "mount proc":
		must(mountProc(""))
	case "hide processes":
		must(mountProc("hidepid=2"))
		child := exec.Command("sleep", "60") // killed with this namespace
		must(child.Start())
		var err error
		q.About, err = Find(child.Process.Pid)
		must(err)
		must(syscall.Setgroups(nil)) // group 0 sees everything
		must(syscall.Setgid(65534))
		must(syscall.Setuid(65534))
	}
	former := Self()
	former.Start = "1" + former.Start
	a := answer{
		Self: Self(), Life: q.About.Life(), SelfLife: Self().Life(), FormerLife: former.Life(),
		GroupLife: GroupLife(q.Group, q.About), Terminal: Terminal(), Session: SessionStart(),
	}
	_, a.Domain = Awake()
	child := exec.Command("sleep", "60")
	must(child.Start())
	a.Child, _ = Find(child.Process.Pid)
	a.ChildLife = a.Child.Life()
	child.Process.Kill()
	child.Wait()
	json.NewEncoder(os.Stdout).Encode(a)
}

// ask runs the test binary as attr says. /proc/self/exe reaches it even for a
// user who may not enter the folder it lies in.
func ask(t *testing.T, q question, attr *syscall.SysProcAttr) (answer, error) {
	t.Helper()
	cmd := questionCommand(t, q, attr)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return answer{}, fmt.Errorf("%w: %s", err, &stderr)
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return a, nil
}

func questionCommand(t *testing.T, q question, attr *syscall.SysProcAttr) *exec.Cmd {
	t.Helper()
	raw, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	exe := "/proc/self/exe"
	if runtime.GOOS != "linux" {
		if exe, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(exe)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), askVariable+"="+string(raw))
	cmd.SysProcAttr = attr
	return cmd
}

// sleeper starts a child that does nothing, in a group of its own.
func sleeper(t *testing.T) (*exec.Cmd, Process) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	p, err := Find(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, p
}

// untilEOF blocks until whoever holds the other end of stdin lets go.
func untilEOF() { io.Copy(io.Discard, os.Stdin) }
