//go:build linux || darwin

package host

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/tasklock/tasklock/internal/patience"
)

func TestLifeOfAChild(t *testing.T) {
	child, p := sleeper(t)
	if p.PID != child.Process.Pid || p.Start == "" || p.Boot != BootID() || p.Boot == "" || p.NS != Self().NS {
		t.Fatalf("Find = %+v", p)
	}
	if got := p.Life(); got != Alive {
		t.Fatalf("a running child is %v", got)
	}

	other := func(change func(*Process)) Process {
		q := p
		change(&q)
		return q
	}
	for _, c := range []struct {
		name string
		p    Process
		want Life
	}{
		{"another start", other(func(q *Process) { q.Start = "1" }), Dead},
		{"no start", other(func(q *Process) { q.Start = "" }), Unknown},
		{"start on another clock", other(func(q *Process) { q.Start = "1@time:[1]" }), Unknown},
		{"another boot", other(func(q *Process) { q.Boot = "4f8e" }), Unknown},
		{"no boot", other(func(q *Process) { q.Boot = "" }), Unknown},
		{"another namespace", other(func(q *Process) { q.NS = "pid:[1]" }), Unknown},
		{"pid 0", other(func(q *Process) { q.PID = 0 }), Unknown},
	} {
		if got := c.p.Life(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}

	child.Process.Kill()
	patience.Until(t, "the killed child is dead before it is reaped", func() bool { return p.Life() == Dead })
	if err := syscall.Kill(p.PID, 0); err != nil {
		t.Fatalf("there is no zombie to test with: %v", err)
	}
	if _, err := Find(p.PID); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("Find of a zombie: %v", err)
	}
	child.Wait()
	if got := p.Life(); got != Dead {
		t.Errorf("the reaped child is %v", got)
	}
	if got := other(func(q *Process) { q.Start = "" }).Life(); got != Dead {
		t.Errorf("a pid that is gone is %v without a start time", got)
	}
	if got := other(func(q *Process) { q.Boot = "4f8e" }).Life(); got != Unknown {
		t.Errorf("a pid of another boot is %v", got)
	}
}

// A process of another user is never dead to us.
func TestLifeOfSomeoneElsesProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("only root can become another user")
		t.Skip("not root")
	}
	_, rootChild := sleeper(t)
	init, err := Find(1)
	if err != nil {
		t.Fatal(err)
	}
	stranger := init
	stranger.Start = "1"
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}

	for _, c := range []struct {
		name string
		p    Process
		want Life
	}{
		{"child of root", rootChild, Alive},
		{"init", init, Alive},
		{"init under an old record", stranger, Unknown},
	} {
		a, err := ask(t, question{About: c.p, Group: rootChild.PID}, nobody)
		if err != nil {
			t.Fatal(err)
		}
		if a.Life != c.want || a.GroupLife != Unknown {
			t.Errorf("%s: %v, its group %v; want %v, unknown", c.name, a.Life, a.GroupLife, c.want)
		}
		if a.SelfLife != Alive || a.ChildLife != Alive {
			t.Errorf("nobody sees itself %v, its child %v", a.SelfLife, a.ChildLife)
		}
	}
}

func TestGroupLife(t *testing.T) {
	child, p := sleeper(t)
	group := p.PID
	for _, pgid := range []int{-5, 0, 1} {
		if got := GroupLife(pgid, p); got != Unknown {
			t.Errorf("group %d is %v", pgid, got)
		}
	}
	if got := GroupLife(group, p); got != Alive {
		t.Errorf("a running group is %v", got)
	}
	if got := GroupLife(group, Process{Boot: "4f8e", NS: p.NS}); got != Unknown {
		t.Errorf("a group of another boot is %v", got)
	}

	// A second member outlives the leader.
	member := exec.Command("sleep", "600")
	member.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if err := member.Start(); err != nil {
		t.Fatal(err)
	}
	child.Process.Kill()
	patience.Until(t, "the leader is dead", func() bool { return p.Life() == Dead })
	if got := GroupLife(group, p); got != Alive {
		t.Errorf("a group with a dead leader and a running member is %v", got)
	}
	child.Wait()
	if got := GroupLife(group, p); got != Alive {
		t.Errorf("a group whose leader was reaped is %v", got)
	}
	member.Process.Kill()
	member.Wait()
	if got := GroupLife(group, p); got != Dead {
		t.Errorf("an empty group is %v", got)
	}
	if got := GroupLife(group, Process{PID: p.PID}); got != Unknown {
		t.Errorf("an empty group of nowhere is %v", got)
	}
}

func TestTwoProcessesAgree(t *testing.T) {
	before, domain := Awake()
	a, err := ask(t, question{About: Self()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.Domain != domain || domain == "" {
		t.Errorf("domains %q and %q", domain, a.Domain)
	}
	if a.Life != Alive || a.Self.Boot != Self().Boot || a.Self.NS != Self().NS {
		t.Errorf("the child sees us %v, itself %+v", a.Life, a.Self)
	}
	if a.Terminal != Terminal() || a.Session != SessionStart() {
		t.Errorf("terminal %q, session %q; ours %q, %q", a.Terminal, a.Session, Terminal(), SessionStart())
	}
	if got := a.Self.Life(); got != Dead {
		t.Errorf("the child is over and %v", got)
	}
	if after, _ := Awake(); after <= before {
		t.Errorf("the clock went from %v to %v", before, after)
	}
}

func TestNewSession(t *testing.T) {
	a, err := ask(t, question{}, &syscall.SysProcAttr{Setsid: true})
	if err != nil {
		t.Fatal(err)
	}
	if a.Terminal != "" || a.Session != a.Self.Start {
		t.Errorf("a session leader without terminal has %q, session %q, start %q", a.Terminal, a.Session, a.Self.Start)
	}
}

func TestFileSystemFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	for link, target := range map[string]string{
		"dangling": "nowhere/yet",
		"loop":     "missing/../loop",
	} {
		if err := os.Symlink(target, dir+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	want, _, _ := FileSystem(dir)
	if got, _, err := FileSystem(dir + "/dangling/db"); err != nil || got != want {
		t.Errorf("through a dangling link: %q, %v; want %q", got, err, want)
	}
	if _, _, err := FileSystem(dir + "/loop"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("in a loop: %v", err)
	}
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := FileSystem(dir + "/file/db"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
}
