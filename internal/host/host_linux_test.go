package host

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tasklock/tasklock/internal/patience"
)

// namespaced asks in new namespaces and skips, aloud, only when this kernel or
// this user gets none.
func namespaced(t *testing.T, q question, flags uintptr) answer {
	t.Helper()
	a, err := ask(t, q, &syscall.SysProcAttr{Cloneflags: flags})
	var exit *exec.ExitError
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) ||
		errors.As(err, &exit) && exit.ExitCode() == refused {
		t.Logf("no namespaces here: %v", err)
		t.Skip("the kernel refuses")
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mountProc(options string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", 0, options)
}

// In a namespace of its own the process numbers mean something else.
func TestAnotherPidNamespace(t *testing.T) {
	child, p := sleeper(t)
	child.Process.Kill()
	child.Wait() // gone here; the same number is unused there as well
	a := namespaced(t, question{Do: "mount proc", About: p, Group: p.PID}, unix.CLONE_NEWPID|unix.CLONE_NEWNS)
	if a.Life != Unknown || a.GroupLife != Unknown {
		t.Errorf("our process is %v there, its group %v", a.Life, a.GroupLife)
	}
	if a.SelfLife != Alive || a.FormerLife != Dead || a.ChildLife != Alive || a.Child.Start == "" {
		t.Errorf("itself %v, its former self %v, its child %v", a.SelfLife, a.FormerLife, a.ChildLife)
	}
	if a.Self.PID != 1 || a.Self.NS == Self().NS || a.Self.NS == "" {
		t.Fatalf("no namespace of its own: %+v", a.Self)
	}
	if a.Self.Life() != Unknown || a.Child.Life() != Unknown {
		t.Errorf("from here its processes are %v and %v", a.Self.Life(), a.Child.Life())
	}
	if _, domain := Awake(); a.Domain != domain {
		t.Errorf("containers of one machine share its clock: %q and %q", a.Domain, domain)
	}
}

// With /proc of the parent, /proc/1 there is not the process that kill(1)
// means. The start times in it prove nothing.
func TestForeignProc(t *testing.T) {
	a := namespaced(t, question{}, unix.CLONE_NEWPID)
	if a.Self.PID != 1 || a.SelfLife != Alive {
		t.Errorf("%+v sees itself %v", a.Self, a.SelfLife)
	}
	if a.Child.PID == 0 || a.Child.Start != "" || a.ChildLife != Unknown {
		t.Errorf("child %+v is %v", a.Child, a.ChildLife)
	}
	if a.FormerLife != Unknown {
		t.Errorf("an older pid 1 is %v by the start time of the machine's init", a.FormerLife)
	}
}

// What /proc hides is not dead.
func TestHiddenProcess(t *testing.T) {
	a := namespaced(t, question{Do: "hide processes"}, unix.CLONE_NEWPID|unix.CLONE_NEWNS)
	if a.Life != Unknown {
		t.Errorf("a process of root is %v", a.Life)
	}
	if a.SelfLife != Alive || a.ChildLife != Alive {
		t.Errorf("itself %v, its child %v", a.SelfLife, a.ChildLife)
	}
}

// Another time namespace shifts the start times in /proc.
func TestAnotherTimeNamespace(t *testing.T) {
	_, p := sleeper(t)
	inner := questionCommand(t, question{About: p}, nil)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--time", "--boottime", "5000", "--monotonic", "7000", "--fork", exe)
	cmd.Env = inner.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("no time namespace: %v: %s", err, out)
		t.Skip("the kernel refuses, or unshare(1) is missing")
	}
	if text := string(out); !strings.Contains(text, `"Life":0`) || !strings.Contains(text, `"ChildLife":1`) {
		t.Errorf("a living process is dead by another clock: %s", text)
	}
	if _, domain := Awake(); strings.Contains(string(out), `"Domain":"`+domain+`"`) {
		t.Errorf("clocks that are 7000 s apart share a domain: %s", out)
	}
}

func endMainThread() {
	go func() {
		untilEOF()
		os.Exit(0)
	}()
	os.Stdout.WriteString("ready\n")
	syscall.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// The main thread shows as a zombie; the process works on.
func TestProcessOutlivesItsMainThread(t *testing.T) {
	cmd := questionCommand(t, question{Do: "end main thread"}, &syscall.SysProcAttr{Setpgid: true})
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	pid := cmd.Process.Pid
	p, err := Find(pid)
	if err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "the main thread is a zombie", func() bool {
		st, err := readStat(strconv.Itoa(pid))
		return err == nil && st.state == 'Z'
	})
	if p.Life() != Alive || GroupLife(pid, p) != Alive {
		t.Errorf("it works on and is %v, its group %v", p.Life(), GroupLife(pid, p))
	}
	stdin.Close()
	patience.Until(t, "it is dead once it ends", func() bool { return p.Life() == Dead })
	if got := GroupLife(pid, p); got != Dead {
		t.Errorf("a group of one zombie is %v", got)
	}
}

func TestGroupOfZombies(t *testing.T) {
	child, p := sleeper(t)
	member := exec.Command("sleep", "600")
	member.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: p.PID}
	if err := member.Start(); err != nil {
		t.Fatal(err)
	}
	defer member.Wait()
	child.Process.Kill()
	member.Process.Kill()
	patience.Until(t, "a group of zombies is dead", func() bool { return GroupLife(p.PID, p) == Dead })
	if err := syscall.Kill(-p.PID, 0); err != nil {
		t.Fatalf("there is no group to test with: %v", err)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " 1 77 77 34819 77 4194304 1 2 3 4 5 6 7 8 20 0 3 0 4711 9 9"
	for _, c := range []struct {
		line string
		want stat
		ok   bool
	}{
		{"77 (sleep) S" + rest, stat{"sleep", 'S', 1, 77, 34819, 3, "4711"}, true},
		{"77 (a) Z 1 (b) R) S" + rest, stat{"a) Z 1 (b) R", 'S', 1, 77, 34819, 3, "4711"}, true},
		{"77 (new\nline) Z" + rest, stat{"new\nline", 'Z', 1, 77, 34819, 3, "4711"}, true},
		{"", stat{}, false},
		{"77 (sleep) S 1 77", stat{}, false},
		{"77 (sleep) S" + strings.Replace(rest, "77", "x", 1), stat{}, false},
	} {
		if got, err := parseStat(c.line); got != c.want || (err == nil) != c.ok {
			t.Errorf("%q: %+v, %v", c.line, got, err)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("77 (sleep) S 1 77 77 34819 77 4194304 1 2 3 4 5 6 7 8 20 0 3 0 4711 9 9")
	f.Add(")")
	f.Fuzz(func(t *testing.T, line string) {
		if st, err := parseStat(line); err == nil && st.start == "" {
			t.Errorf("%q has no start time and no error", line)
		}
	})
}

func TestTerminalName(t *testing.T) {
	for want, dev := range map[string][2]uint32{"pts-3": {136, 3}, "pts-300": {136, 300}, "tty-999-7": {999, 7}} {
		if got := terminalName(dev[0], dev[1]); got != want {
			t.Errorf("%v is %q, want %q", dev, got, want)
		}
	}
}
