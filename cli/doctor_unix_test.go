//go:build unix

package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
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
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
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
