//go:build unix

package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tasklock/tasklock/internal/problem"
)

// What may not be written is seen by a user who is not root; as root, the test
// runs itself once more as somebody else.
func TestDoctorReadOnly(t *testing.T) {
	if os.Getuid() == 0 {
		asNobody(t, "^TestDoctorReadOnly$")
		return
	}
	d := newDesk(t)
	d.want(0, "", "acquire", "task")
	folder, db := d.path(".tasklock"), d.path(".tasklock/tasklock.db")
	chmod := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	defer chmod(folder, 0o700)
	for _, mode := range []os.FileMode{0o500, 0o300, 0o200} {
		chmod(folder, mode)
		d.want(map[bool]int{true: 3, false: 5}[mode == 0o200], "Next: chmod u+rwx "+folder, "doctor")
	}
	chmod(folder, 0o500)
	d.want(5, "store refuses access", "config", "set", "owner", "x")
	chmod(folder, 0o700)
	chmod(db, 0o400)
	d.want(5, "Next: chmod u+w "+db, "doctor")
}

// A store that Codex's sandbox keeps from being written: the error names the
// setting that helps.
func TestCodexSandbox(t *testing.T) {
	if os.Getuid() == 0 {
		asNobody(t, "^TestCodexSandbox$")
		return
	}
	d := newDesk(t)
	d.want(0, "", "acquire", "task")
	folder := d.path(".tasklock")
	if err := os.Chmod(folder, 0o500); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(folder, 0o700) }()
	d.want(5, "Next: tasklock doctor", "acquire", "other")
	d.env["CODEX_THREAD_ID"] = "t"
	d.want(5, "Next: codex --sandbox workspace-write", "acquire", "other")
	link(t, d.dir, d.path("home/tree"))
	d.dir = d.path("home/tree")
	want := `writable_roots = ["` + folder + `"]; or use the MCP tools of tasklock`
	d.want(5, want, "acquire", "other")
	d.want(5, `Next: codex -c 'sandbox_workspace_write.writable_roots=["`+folder+`"]'`, "acquire", "other")
	d.want(5, want, "doctor")
	d.env["TASKLOCK_OWNER"], d.env["CODEX_THREAD_ID"], d.env["CODEX_SANDBOX"] = "me", "", "seatbelt"
	d.want(5, want, "release", "task")
}

// What may not be written is said with its name, and nothing is left half done.
func TestInstallReadOnly(t *testing.T) {
	if os.Getuid() == 0 {
		asNobody(t, "^TestInstallReadOnly$")
		return
	}
	d := newDesk(t)
	settings := d.path(".claude/settings.json")
	if err := os.MkdirAll(filepath.Dir(settings), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(settings), d.dir} {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.Chmod(dir, 0o700) }()
	}
	d.want(5, settings+" cannot be written", "agents", "install", "claude")
	d.want(5, ".gemini/settings.json cannot be written", "agents", "install", "gemini")
	if text, err := os.ReadFile(settings); err != nil || string(text) != "{}" {
		t.Errorf("%s, %v", text, err)
	}
}

// link makes a worktree of a repository as far as tasklock looks.
func link(t *testing.T, repository, tree string) {
	t.Helper()
	own := filepath.Join(repository, ".git", "worktrees", "tree")
	for file, text := range map[string]string{filepath.Join(tree, ".git"): "gitdir: " + own + "\n", filepath.Join(own, "commondir"): "../..\n"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// asNobody runs a test of this binary as another user.
func asNobody(t *testing.T, name string) {
	t.Helper()
	const nobody = 65534
	dir, err := os.MkdirTemp("", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "test")
	if err := copyBinary(binary); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.run", name, "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "XDG_STATE_HOME=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

func copyBinary(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, from); err != nil {
		return err
	}
	return f.Close()
}

// Where nobody lets us in, that is said, and what is offered can be done.
func TestFolderOfSomebodyElse(t *testing.T) {
	dir := os.Getenv("TASKLOCK_TEST_DIR")
	if dir == "" {
		if os.Getuid() != 0 {
			t.Skip("needs root: another user's folder")
		}
		base, err := os.MkdirTemp("", "theirs")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(base) }()
		if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(filepath.Join(base, ".tasklock"), 0o700)); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TASKLOCK_TEST_DIR", base)
		asNobody(t, "^TestFolderOfSomebodyElse$")
		if err := os.Chown(filepath.Join(base, ".tasklock"), 1, 1); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TASKLOCK_TEST_UID", "1")
		asNobody(t, "^TestFolderOfSomebodyElse$")
		return
	}
	code, uid := int(problem.Denied), "0"
	if os.Getenv("TASKLOCK_TEST_UID") != "" {
		code, uid = int(problem.Unsafe), "1"
	}
	d := newDesk(t)
	d.dir = dir
	for _, args := range [][]string{{"check", "a"}, {"acquire", "a"}, {"init"}} {
		d.want(code, "belongs to user "+uid+", we are 65534; use a store of your own\nNext: tasklock doctor", args...)
	}
	d.want(code, "Next: "+problem.OwnStore, "doctor")

	d.dir, d.env["HOME"] = "/", "/" // where we may make no folder
	d.want(int(problem.Setup), "/ cannot be written (permission denied); name a store with --store\nNext: "+problem.OwnStore, "acquire", "a")
	d.want(int(problem.Setup), "/ cannot be written", "doctor")
}

func TestDoctorFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}
	d := newDesk(t)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", d.dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %v, %s", err, out)
	}
	defer func() { _ = exec.Command("umount", "-l", d.dir).Run() }()
	repository(t, d.dir)
	d.want(0, "", "acquire", "a")
	d.want(0, "ok   filesystem tmpfs", "doctor")
	f, err := os.Create(d.path("large"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	_ = f.Close()
	d.want(int(problem.Unsafe), "disk full, nothing was written", "acquire", "b")
	d.want(int(problem.Unsafe), "disk full, nothing was written", "backup", "all.jsonl")
	d.want(int(problem.Unsafe), "the disk is full: 0 B left on tmpfs", "doctor")
	if err := os.Remove(d.path("large")); err != nil {
		t.Fatal(err)
	}
	d.want(0, "", "acquire", "b")
}
