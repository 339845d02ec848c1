//go:build unix

package sqlitestore_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

// Names that mean something to a URI or a shell mean nothing here.
func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a?b=c", "a#b", "a%20b", "a b ", "file:x", ":memory:", "ä'\"\n"} {
		path := filepath.Join(t.TempDir(), name, name)
		s := open(t, path)
		if _, err := s.Commit(t.Context(), put("lock/a", `{}`)); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%q: %v %v", name, fi, err)
		}
	}
}

func TestOwnOnly(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "store", "db")
	s := open(t, path)
	if _, err := s.Commit(t.Context(), put("lock/a", `{}`)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "db": 0o600, "db-wal": 0o600, "db-shm": 0o600, "db.d": 0o700, "db.d/gate": 0o600, "db.d/last": 0o600} {
		fi, err := os.Stat(filepath.Join(filepath.Dir(path), name))
		if err != nil || fi.Mode().Perm() != want {
			t.Errorf("%q: %v %v", name, fi.Mode(), err)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(filepath.Dir(path), ".gitignore")); string(b) != "*\n" {
		t.Errorf(".gitignore %q", b)
	}
}

func TestUnsafePlaces(t *testing.T) {
	away := func(t *testing.T, path string) { // replaced by a link to itself elsewhere
		to := filepath.Join(t.TempDir(), "elsewhere")
		if err := os.Rename(path, to); err != nil {
			must(t, os.WriteFile(to, nil, 0o600))
		}
		must(t, os.Symlink(to, path))
	}
	for name, spoil := range map[string]func(t *testing.T, path string){
		"linked folder":  func(t *testing.T, path string) { away(t, filepath.Dir(path)) },
		"linked file":    away,
		"linked log":     func(t *testing.T, path string) { away(t, path+"-wal") },
		"linked memory":  func(t *testing.T, path string) { away(t, path+"-shm") },
		"linked journal": func(t *testing.T, path string) { away(t, path+"-journal") },
		"linked side":    func(t *testing.T, path string) { away(t, path+".d") },
		"linked gate":    func(t *testing.T, path string) { away(t, path+".d/gate") },
		"linked wake":    func(t *testing.T, path string) { away(t, path+".d/wake") },
		"linked note":    func(t *testing.T, path string) { away(t, path+".d/last") },
		"second name":    func(t *testing.T, path string) { must(t, os.Link(path, path+"2")) },
		"open to all":    func(t *testing.T, path string) { must(t, os.Chmod(filepath.Dir(path), 0o777)) },
		"open to group":  func(t *testing.T, path string) { must(t, os.Chmod(filepath.Dir(path), 0o770)) },
		"another's folder": func(t *testing.T, path string) {
			needRoot(t)
			must(t, os.Chown(filepath.Dir(path), 12345, -1))
		},
		"another's file": func(t *testing.T, path string) {
			needRoot(t)
			must(t, os.Chown(path, 12345, -1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			spoil(t, path)
			if err := use(t, path); !errors.Is(err, driver.ErrUnsafe) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Who may only read, reads; writing is refused with a reason.
func TestReadOnly(t *testing.T) {
	needRoot(t)
	nobody := func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	exe, err := os.Executable()
	must(t, err)
	for name, leave := range map[string]func(path string){
		"closed": func(string) {},
		"left":   func(path string) { run(t, "write", path) }, // with a log beside it
	} {
		t.Run(name, func(t *testing.T) {
			top, err := os.MkdirTemp("/tmp", "tasklock")
			must(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(top) })
			must(t, os.Chmod(top, 0o755))
			bin := filepath.Join(top, "child")
			copied, err := os.ReadFile(exe)
			must(t, err)
			must(t, os.WriteFile(bin, copied, 0o755))
			as := func(cmd *exec.Cmd) { cmd.Path = bin; cmd.Dir = top; nobody(cmd) }

			path := filepath.Join(top, "store", "db")
			if got := run(t, "write", path, as); !strings.HasPrefix(got, "missing") {
				t.Errorf("nothing there: %s", got)
			}
			s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Create: true})
			must(t, err)
			_, err = s.Commit(t.Context(), put("lock/child", `{}`))
			must(t, err)
			must(t, s.Close())
			leave(path)
			if got := run(t, "read", path, as); !strings.HasPrefix(got, "denied") {
				t.Errorf("closed folder: %s", got)
			}
			must(t, os.Chmod(filepath.Dir(path), 0o755))
			for _, f := range []string{"", "-wal", "-shm"} {
				_ = os.Chmod(path+f, 0o644)
			}
			if got := run(t, "read", path, as); got != "read 1" {
				t.Errorf("read: %s", got)
			}
			if got := run(t, "write", path, as); !strings.HasPrefix(got, "denied") {
				t.Errorf("write: %s", got)
			}
			if name == "closed" { // nobody can take back what a journal says is half done
				must(t, os.WriteFile(path+"-journal", []byte("\xd9\xd5\x05\xf9"), 0o644))
				if got := run(t, "read", path, as); !strings.HasPrefix(got, "denied") {
					t.Errorf("with a journal: %s", got)
				}
			}
			must(t, os.Chmod(path, 0o600))
			if got := run(t, "read", path, as); !strings.HasPrefix(got, "denied") {
				t.Errorf("closed file: %s", got)
			}
		})
	}
}

// A full disk costs the commit, not the store.
func TestFullDisk(t *testing.T) {
	needRoot(t)
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	path := filepath.Join(disk, "store", "db")
	s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Create: true})
	must(t, err)
	defer func() { _ = s.Close() }()
	ballast := filepath.Join(disk, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 300<<10), 0o600))
	big := put("lock/a", `{"pad":"`+strings.Repeat("x", 60_000)+`"}`)
	var last int64
	for range 20 {
		rev, err := s.Commit(t.Context(), big)
		if err != nil {
			if !errors.Is(err, driver.ErrFull) || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v", err)
			}
			break
		}
		last = rev
	}
	snap, err := s.Read(t.Context(), driver.Query{})
	must(t, err)
	if snap.Rev != last || last == 0 {
		t.Errorf("at revision %d, acknowledged %d", snap.Rev, last)
	}
	must(t, os.Remove(ballast))
	if _, err := s.Commit(t.Context(), big); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// Commands that commit and exit, one after another, keep the log short.
func TestLogStaysShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store", "db")
	for range 12 { // 3 MB in all
		if got := run(t, "fill", path); got != "ok" {
			t.Fatal(got)
		}
	}
	fi, err := os.Stat(path + "-wal")
	must(t, err)
	if fi.Size() > 3<<19 {
		t.Errorf("log has %d bytes", fi.Size())
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: changes owners or mounts")
	}
}

// A single file that is mounted elsewhere has another log and another gate there.
func TestFileMountedElsewhere(t *testing.T) {
	needRoot(t)
	from, to := place(t), filepath.Join(t.TempDir(), "db")
	must(t, os.WriteFile(to, nil, 0o600))
	if out, err := exec.Command("mount", "--bind", from, to).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v %s", err, out)
	}
	defer func() {
		if out, err := exec.Command("umount", to).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	}()
	if err := use(t, to); !errors.Is(err, driver.ErrUnsafe) || !strings.Contains(err.Error(), to) {
		t.Errorf("got %v", err)
	}
	if err := use(t, from); err != nil {
		t.Errorf("at its own place: %v", err)
	}
}
