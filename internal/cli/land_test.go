//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/internal/torture/long"
)

// A field has a bare remote, its clones, and one store for all of them.
type field struct {
	t   testing.TB
	dir string
	env []string
}

func newField(t testing.TB) *field {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &field{t: t, dir: dir, env: []string{
		"TASKLOCK_TEST_MAIN=1", "HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TASKLOCK_OWNER=me", "TASKLOCK_STORE=sqlite:" + dir + "/locks.db",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "TASKLOCK=" + self,
		"TASKLOCK_FAULT_BUG=" + os.Getenv("TASKLOCK_FAULT_BUG"), "GIT_CONFIG_NOSYSTEM=1",
	}}
	f.git(".", "init", "-q", "--bare", "-b", "main", "remote.git")
	f.git(".", "clone", "-q", "remote.git", "seed")
	f.git("seed", "switch", "-q", "-c", "main")
	f.write("seed/shared", "1\n")
	f.commit("seed", "base")
	f.git("seed", "push", "-q", "origin", "main")
	return f
}

func (f *field) path(name string) string { return filepath.Join(f.dir, name) }

func (f *field) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *field) command(dir string, words ...string) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = f.path(dir), f.env
	return cmd
}

// git runs git in a clone and returns what it prints.
func (f *field) git(dir string, args ...string) string {
	f.t.Helper()
	out, err := f.command(dir, append([]string{"git"}, args...)...).CombinedOutput()
	if err != nil {
		f.t.Errorf("%s: git %s: %v\n%s", dir, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit commits everything in a clone.
func (f *field) commit(dir, subject string) {
	f.t.Helper()
	f.git(dir, "add", "--all")
	f.git(dir, "commit", "-q", "--allow-empty", "-m", subject)
}

// subjects are those of the remote's commits, the oldest first.
func (f *field) subjects() []string {
	f.t.Helper()
	return strings.Split(f.git("remote.git", "log", "--reverse", "--format=%s", "main"), "\n")
}

// landings are what a land with --json has printed.
type landings struct {
	events []string
	last   struct {
		Data  struct{ Attempts, Commits int }
		Error struct{ Code, Message string }
	}
}

func readLandings(t testing.TB, out []byte) (l landings) {
	t.Helper()
	for line := range bytes.Lines(out) {
		var e struct{ Event string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Errorf("no JSON: %s", line)
			continue
		}
		l.events = append(l.events, e.Event)
		_ = json.Unmarshal(line, &l.last)
	}
	return l
}

// TestLandTogether: eight clones land three commits each at the same time. Every
// commit that does not conflict lands once, in the order of the queue, and no push is
// refused. TestPushTogether shows that this is not so without land.
func TestLandTogether(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	f := newField(t)
	refused := f.together(func(dir, subject string) (rejected int, landed bool) {
		cmd := f.command(dir, os.Args[0], "land", "--json", "--", "sh", "-c", `echo "$TASKLOCK_TOKEN $0" >>../order; sleep 0.05`, subject)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		l := readLandings(t, stdout.Bytes())
		switch {
		case err == nil && l.last.Data.Commits == 1:
			return l.last.Data.Attempts - 1, true
		case l.last.Error.Code != "REBASE_CONFLICT":
			t.Errorf("%s: %v\n%s%s", subject, err, stdout.Bytes(), stderr.Bytes())
		}
		return 0, false
	})
	if refused != 0 {
		t.Errorf("%d pushes were refused", refused)
	}
	order, err := os.ReadFile(f.path("order"))
	if err != nil {
		t.Fatal(err)
	}
	var granted []string
	last := 0
	for line := range strings.Lines(string(order)) {
		number, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		token, _ := strconv.Atoi(number)
		if token <= last {
			t.Errorf("token %d after %d", token, last)
		}
		last = token
		granted = append(granted, subject)
	}
	if landed := f.subjects()[1:]; !slices.Equal(landed, granted) {
		t.Errorf("landed in the order\n%q\nthe queue was\n%q", landed, granted)
	}
}

// TestPushTogether is the same without land: it counts the refused pushes.
func TestPushTogether(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	f := newField(t)
	refused := f.together(func(dir, subject string) (rejected int, landed bool) {
		for ; ; rejected++ {
			f.git(dir, "fetch", "-q")
			if f.command(dir, "git", "rebase", "-q", "origin/main").Run() != nil {
				f.git(dir, "rebase", "--abort")
				return rejected, false
			}
			time.Sleep(50 * time.Millisecond) // the test
			if f.command(dir, "git", "push", "-q", "origin", "HEAD:main").Run() == nil {
				return rejected, true
			}
		}
	})
	t.Logf("%d pushes were refused without land", refused)
	if refused == 0 {
		t.Error("no push was refused without land, so the other test proves nothing")
	}
}

// together lets eight clones land three commits each; the first ones of three clones
// conflict with each other. It checks what the remote has then, and returns how many
// pushes were refused.
func (f *field) together(land func(dir, subject string) (rejected int, landed bool)) (refused int) {
	const clones, commits = 8, 3
	t := f.t
	var mu sync.Mutex
	var wg sync.WaitGroup
	want := []string{"base"}
	conflicts := 0
	for c := range clones {
		f.git(".", "clone", "-q", "remote.git", fmt.Sprintf("clone%d", c))
	}
	for c := range clones {
		dir := fmt.Sprintf("clone%d", c)
		wg.Go(func() {
			for n := range commits {
				subject := fmt.Sprintf("%d.%d", c, n)
				f.write(dir+"/"+subject, subject)
				if n == 0 && c < 3 {
					f.write(dir+"/shared", subject)
				}
				f.commit(dir, subject)
				rejected, landed := land(dir, subject)
				if !landed {
					f.git(dir, "reset", "-q", "--hard", "HEAD~1")
				}
				mu.Lock()
				refused += rejected
				if landed {
					want = append(want, subject)
				} else {
					conflicts++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	got := f.subjects()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the remote has\n%q, landed were\n%q", got, want)
	}
	if conflicts != 2 { // of three that write one line, one lands
		t.Errorf("%d conflicts", conflicts)
	}
	if merges := f.git("remote.git", "rev-list", "--merges", "main"); merges != "" {
		t.Errorf("merge commits: %s", merges)
	}
	return refused
}

// slowGit is a git that stops at its n-th call, or at the first one with a verb, before,
// after or during the call, and says so.
const slowGit = `#!/bin/sh
n=$(($(cat "$FIELD/calls" 2>/dev/null || echo 0) + 1))
echo $n >"$FIELD/calls"
case " $n $* " in *" $STOP_AT "*) ;; *) exec "$GIT" "$@" ;; esac
echo "$*" >"$FIELD/call"
case $STOP in
after) "$GIT" "$@" ;;
during) "$GIT" "$@" & sleep $STOP_AFTER ;;
esac
mv "$FIELD/call" "$FIELD/reached"
exec sleep 300
`

// stops makes the n-th call of git in a landing stop, or the first one with a verb.
func (f *field) stops(at, when string) {
	f.t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.MkdirAll(f.path("bin"), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(f.path("bin/git"), []byte(slowGit), 0o755); err != nil {
		f.t.Fatal(err)
	}
	f.env = append(f.env, "PATH="+f.path("bin")+":"+os.Getenv("PATH"), "GIT="+git, "FIELD="+f.dir, "STOP_AT="+at, "STOP="+when, fmt.Sprintf("STOP_AFTER=%.4f", rand.Float64()/100))
}

// ready makes a clone whose branch work has a commit to land, on top of a commit that
// the remote has left behind.
func (f *field) ready() (head string) {
	f.git(".", "clone", "-q", "remote.git", "mine")
	f.git("mine", "switch", "-q", "-c", "work")
	f.write("mine/mine", "mine\n")
	f.write("mine/.gitignore", "built\n")
	f.commit("mine", "mine")
	f.write("mine/built", "built\n")
	f.write("seed/theirs", "theirs\n")
	f.write("seed/shared", "2\n")
	f.commit("seed", "theirs")
	f.git("seed", "push", "-q", "origin", "main")
	return f.git("mine", "rev-parse", "work")
}

// settled checks that the branch is whole after a landing that was ended: at its old
// commit with its files, or landed.
func (f *field) settled(head string) {
	t := f.t
	t.Helper()
	if got := f.git("mine", "symbolic-ref", "HEAD"); got != "refs/heads/work" {
		t.Errorf("HEAD is %s", got)
	}
	if got := f.git("mine", "status", "--porcelain"); got != "" {
		t.Errorf("status: %s", got)
	}
	landed := slices.Contains(f.subjects(), "mine")
	_, err := os.Stat(f.path("mine/theirs"))
	switch at := f.git("mine", "rev-parse", "work"); {
	case at == head && err == nil:
		t.Error("the branch is old and the files are new")
	case at != head && !landed:
		t.Errorf("the branch moved to %s and nothing landed", at)
	}
	if text, err := os.ReadFile(f.path("mine/built")); string(text) != "built\n" {
		t.Errorf("an ignored file is gone: %v", err)
	}
}

// clean checks that nothing of a landing is left.
func (f *field) clean() {
	f.t.Helper()
	if trees := f.git("mine", "worktree", "list"); strings.Contains(trees, "\n") {
		f.t.Errorf("worktrees: %s", trees)
	}
	for _, name := range []string{"tasklock/land.json", "tasklock/landing", "index.lock", "HEAD.lock", "refs/heads/work.lock"} {
		if _, err := os.Lstat(f.path("mine/.git/" + name)); err == nil {
			f.t.Errorf("%s is left", name)
		}
	}
	f.git("mine", "fsck", "--no-dangling")
	f.git("remote.git", "fsck", "--no-dangling")
}

// calls is how often a landing calls git.
func calls(t *testing.T) int {
	f := newField(t)
	f.stops("never", "")
	f.ready()
	if out, err := f.command("mine", os.Args[0], "land", "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(f.path("calls"))
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if n < 20 {
		t.Fatalf("a landing calls git %d times", n)
	}
	return n
}

// TestLandKilled kills everything of a landing before, during or after one of its
// calls of git. The next landing finishes the work.
func TestLandKilled(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	most := calls(t)
	t.Logf("a landing calls git %d times", most)
	order := rand.Perm(most)
	var wg sync.WaitGroup
	limit := make(chan struct{}, 3)
	for round := range long.Loop(t, 30, 3*time.Minute) {
		at := order[round%most] + 1
		when := []string{"before", "during", "after"}[rand.IntN(3)]
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			t.Run(fmt.Sprintf("%s call %d", when, at), func(t *testing.T) { killAt(t, newField(t), strconv.Itoa(at), when) })
		})
	}
	wg.Wait()
}

// TestLandKilledInCheckout kills git while it writes hundreds of files, on the way
// to the rebased commit and on the way back.
func TestLandKilledInCheckout(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	for round := range long.Loop(t, 6, time.Minute) {
		f := newField(t)
		for i := range 500 {
			f.write(fmt.Sprintf("seed/file%d", i), "old\n")
		}
		f.commit("seed", "files")
		f.git("seed", "push", "-q", "origin", "main")
		for i := range 400 { // half of them change, others go, others come
			f.write(fmt.Sprintf("seed/file%d", 2*i+200), "new\n")
		}
		for i := range 50 {
			if err := os.Remove(f.path(fmt.Sprintf("seed/file%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		killAt(t, f, []string{"checkout", "--force"}[round%2], "during")
	}
}

func killAt(t *testing.T, f *field, at, when string) {
	before := f.subjects()
	head := f.ready()
	whole := f.env
	f.stops(at, when)
	test, whom := "true", []string{"all", "land", "its steps"}[rand.IntN(3)]
	if at == "--force" { // the way back
		test = "false"
	}
	if _, err := strconv.Atoi(at); err != nil {
		whom = "all"
	}
	cmd := f.command("mine", os.Args[0], "land", "--", test)
	f.start(cmd, at)
	t.Logf("killing %s", whom)
	switch steps := below(below(cmd.Process.Pid)); {
	case whom == "land":
		_ = cmd.Process.Kill() // the guardian ends the rest
	case whom == "its steps" && steps != 0 && steps != below(cmd.Process.Pid):
		_ = syscall.Kill(steps, syscall.SIGKILL)
	default:
		killTree(cmd.Process.Pid)
	}
	_ = cmd.Wait()
	f.env = whole
	if at := f.git("mine", "rev-parse", "refs/heads/work"); at != head && !slices.Contains(f.subjects(), "mine") {
		t.Errorf("the branch is at %s", at)
	}
	out, err := f.command("mine", os.Args[0], "land", "--", "sh", "-c", "test -e theirs && test -e built").CombinedOutput()
	if err != nil {
		t.Errorf("the next landing: %v\n%s", err, out)
	}
	f.settled(head)
	if got := f.subjects(); !slices.Equal(got, append(before, "theirs", "mine")) {
		t.Errorf("the remote has %q", got)
	}
	if f.git("mine", "rev-parse", "work") != f.git("remote.git", "rev-parse", "main") {
		t.Errorf("the branch is not at the landed commit:\n%s", out)
	}
	f.clean()
}

// start starts a landing and waits until git has stopped.
func (f *field) start(cmd *exec.Cmd, at string) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	patience.Until(f.t, "git's call "+at, func() bool {
		_, err := os.Stat(f.path("reached"))
		return err == nil
	})
	call, _ := os.ReadFile(f.path("reached"))
	f.t.Logf("git %s", call)
}

// below is a child of a process that is not git; 0: it has none.
func below(pid int) int {
	rows, _ := host.Table()
	for _, r := range rows {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", r.PID)); pid != 0 && r.Parent == pid && !r.Ended && strings.HasPrefix(string(name), "cli") {
			return r.PID
		}
	}
	return 0
}

// killTree kills a process and all that descends from it, as one: nobody has the time
// to notice.
func killTree(pid int) {
	stopped := map[int]bool{}
	for grew := true; grew; {
		grew = false
		rows, _ := host.Table()
		for _, r := range rows {
			if !stopped[r.PID] && (r.PID == pid || stopped[r.Parent]) {
				stopped[r.PID], grew = true, true
				_ = syscall.Kill(r.PID, syscall.SIGSTOP)
			}
		}
	}
	for p := range stopped {
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
}

// TestLandInterrupted sends a signal to a landing at one of its calls of git: the branch
// and the files are as they were, or it has landed.
func TestLandInterrupted(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	most := calls(t)
	for round := range long.Loop(t, 12, time.Minute) {
		at := (rand.IntN(4)+round*most/12)%most + 1
		sig := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[round%3]
		t.Run(fmt.Sprintf("%v at call %d", sig, at), func(t *testing.T) {
			f := newField(t)
			head := f.ready()
			f.stops(strconv.Itoa(at), "before")
			cmd := f.command("mine", os.Args[0], "land", "--", "true")
			f.start(cmd, strconv.Itoa(at))
			_ = cmd.Process.Signal(sig)
			rows, _ := host.Table()
			for _, r := range rows { // git itself gets the signal where it is not part of our group
				if r.Parent == cmd.Process.Pid {
					_ = syscall.Kill(r.PID, sig)
				}
			}
			_ = cmd.Wait()
			f.settled(head)
			f.clean()
			if out, err := f.command("mine", os.Args[0], "check", "land:origin/main").CombinedOutput(); err == nil {
				t.Errorf("the lock is still held: %s", out)
			}
		})
	}
}

// TestLandFences: a landing that has lost its lock during the test pushes nothing, and one
// during whose test somebody pushed replaces nothing, and tests again.
func TestLandFences(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	t.Run("lost", func(t *testing.T) {
		f := newField(t)
		head := f.ready()
		cmd := f.command("mine", os.Args[0], "land", "--", "sh", "-c", `$TASKLOCK break land:origin/main --reason test`)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 7 {
			t.Errorf("%v\n%s", err, out)
		}
		if slices.Contains(f.subjects(), "mine") {
			t.Errorf("a landing without its lock pushed:\n%s", out)
		}
		f.settled(head)
		f.clean()
	})
	t.Run("moved", func(t *testing.T) {
		f := newField(t)
		head := f.ready()
		f.write("push.sh", `git rev-parse HEAD >>../tested
cd ../seed && [ ! -e late ] && touch late && git add late && git commit -q -m late && git push -q origin main
true`)
		if out, err := f.command("mine", os.Args[0], "land", "--", "sh", "../push.sh").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if got := f.subjects(); !slices.Equal(got, []string{"base", "theirs", "late", "mine"}) {
			t.Errorf("the remote has %q", got)
		}
		tested, _ := os.ReadFile(f.path("tested"))
		if last := f.git("remote.git", "rev-parse", "main"); !strings.HasSuffix(string(tested), last+"\n") {
			t.Errorf("%s landed, tested were\n%s", last, tested)
		}
		f.settled(head)
		f.clean()
	})
}

// TestLandInterruptedSaysSo: with --json the last object says that a landing was
// interrupted, and the exit code is that of the signal.
func TestLandInterruptedSaysSo(t *testing.T) {
	t.Parallel()
	f := newField(t)
	f.ready()
	cmd := f.command("mine", os.Args[0], "land", "--json", "--", "sh", "-c", "kill -TERM $PPID; exec sleep 300")
	out, _ := cmd.Output()
	l := readLandings(t, out)
	if code := cmd.ProcessState.ExitCode(); code != 143 || l.last.Error.Code != "INTERRUPTED" {
		t.Errorf("exit code %d, %+v\n%s", code, l.last.Error, out)
	}
}
