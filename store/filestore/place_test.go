//go:build unix

package filestore_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/filestore"
)

// Names that mean something to a URI or a shell mean nothing here.
func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a?b=c", "a#b", "a%20b", "a b ", "file:x", "ä'\"\n"} {
		s := open(t, filepath.Join(t.TempDir(), name, name))
		if _, err := s.Commit(t.Context(), put("lock/a", `{}`)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOwnOnly(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	_, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	_, err = s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "lock/a"}, {Key: "lock/b", Value: []byte(`{}`)}}})
	must(t, err)
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		must(t, err)
		fi, err := d.Info()
		must(t, err)
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if fi.Mode().Perm() != want {
			t.Errorf("%s: %v", path, fi.Mode())
		}
		return nil
	}))
	if b, _ := os.ReadFile(filepath.Join(dir, ".gitignore")); string(b) != "*\n" {
		t.Errorf(".gitignore %q", b)
	}
}

// Nothing is read or written through a link, at whatever place it lies.
func TestUnsafePlaces(t *testing.T) {
	linked := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { // replaced by a link to itself elsewhere
			path := filepath.Join(dir, name)
			to := filepath.Join(t.TempDir(), "elsewhere")
			if err := os.Rename(path, to); err != nil {
				must(t, os.WriteFile(to, nil, 0o600))
			}
			must(t, os.Symlink(to, path))
		}
	}
	inside := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { // the same, but within the store
			path := filepath.Join(dir, name)
			must(t, os.Rename(path, filepath.Join(dir, "elsewhere")))
			must(t, os.Symlink(filepath.Join(dir, "elsewhere"), path))
		}
	}
	record := filestore.FileOf("lock/a")
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"linked folder":       linked(""),
		"linked journal":      linked("journal"),
		"linked state":        linked("state"),
		"linked gate":         linked("gate"),
		"linked wake":         linked("wake"),
		"linked records":      linked("records"),
		"linked kind":         linked("records/lock"),
		"linked record":       linked(record),
		"linked spare":        linked("spare"),
		"link inside, kind":   inside("records/lock"),
		"link inside, record": inside(record),
		"link inside, state":  inside("state"),
		"second name": func(t *testing.T, dir string) {
			must(t, os.Link(filepath.Join(dir, "journal"), filepath.Join(dir, "j2")))
		},
		"open to all":      func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o777)) },
		"open to group":    func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o770)) },
		"kind open to all": func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, "records/lock"), 0o777)) },
		"another's folder": func(t *testing.T, dir string) {
			needRoot(t)
			must(t, os.Chown(dir, 12345, -1))
		},
		"another's record": func(t *testing.T, dir string) {
			needRoot(t)
			must(t, os.Chown(filepath.Join(dir, record), 12345, -1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := place(t)
			spoil(t, dir)
			if err := use(t, dir); !errors.Is(err, driver.ErrUnsafe) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A link in place of a spare file is not written through, and what a commit
// could not put into its file is still committed.
func TestLinkedSpare(t *testing.T) {
	dir := place(t)
	s := open(t, dir)
	_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "lock/a"}}})
	must(t, err)
	spare := filepath.Join(dir, "spare", "0")
	must(t, os.Remove(spare))
	victim := filepath.Join(dir, "victim")
	must(t, os.WriteFile(victim, []byte("precious"), 0o600))
	must(t, os.Symlink(victim, spare))
	rev, err := s.Commit(t.Context(), put("lock/a", `{"n":2}`))
	must(t, err)
	for range 2 {
		snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
		if err != nil || len(snap.Records) != 1 || snap.Records[0].Rev != rev {
			t.Fatalf("%+v %v", snap, err)
		}
		if _, err := s.Commit(t.Context(), put("lock/z", `{}`)); !errors.Is(err, driver.ErrUnsafe) {
			t.Errorf("got %v", err)
		}
	}
	if b, _ := os.ReadFile(victim); string(b) != "precious" {
		t.Errorf("wrote through a link: %q", b)
	}
	must(t, os.Remove(spare))
	if got, _, err := all(t, dir); err != nil || got["lock/a"] != `{"n":2}` {
		t.Errorf("%v %v", got, err)
	}
}

// A second name of a record's file keeps what it had.
func TestHardLinkedRecord(t *testing.T) {
	dir := place(t)
	copied := filepath.Join(t.TempDir(), "copy")
	must(t, os.Link(filepath.Join(dir, filestore.FileOf("lock/a")), copied))
	before, err := os.ReadFile(copied)
	must(t, err)
	s := open(t, dir)
	for _, b := range []driver.Batch{put("lock/a", `{"n":1}`), put("lock/a", `{"n":2}`), put("lock/c", `{}`)} {
		_, err := s.Commit(t.Context(), b)
		must(t, err)
	}
	if now, _ := os.ReadFile(copied); string(now) != string(before) {
		t.Errorf("the copy became\n%s", now)
	}
}

func TestPipeInPlaceOfAFile(t *testing.T) {
	for _, name := range []string{filestore.FileOf("lock/a"), "state", "journal", "spare"} {
		dir := place(t)
		path := filepath.Join(dir, name)
		_ = os.Remove(path)
		must(t, syscall.Mkfifo(path, 0o600))
		if err := use(t, dir); !errors.Is(err, driver.ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Who may only read, reads, also what a dead writer left; writing is refused
// with a reason.
func TestReadOnly(t *testing.T) {
	needRoot(t)
	exe, err := os.Executable()
	must(t, err)
	for name, leave := range map[string]func(dir string){
		"at rest":       func(string) {},
		"without state": func(dir string) { must(t, os.Remove(filepath.Join(dir, "state"))) },
		"without a file": func(dir string) {
			must(t, os.Remove(filepath.Join(dir, "state")))
			must(t, os.RemoveAll(filepath.Join(dir, "records")))
		},
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
			as := func(cmd *exec.Cmd) {
				cmd.Path, cmd.Dir = bin, top
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			}
			dir := filepath.Join(top, "store")
			if got := run(t, "write", dir, as); !strings.HasPrefix(got, "missing") {
				t.Errorf("nothing there: %s", got)
			}
			s, err := filestore.Open(t.Context(), dir, &filestore.Options{Create: true})
			must(t, err)
			_, err = s.Commit(t.Context(), put("lock/child", `{}`))
			must(t, err)
			must(t, s.Close())
			leave(dir)
			if got := run(t, "read", dir, as); !strings.HasPrefix(got, "denied") {
				t.Errorf("closed folder: %s", got)
			}
			out, err := exec.Command("chmod", "-R", "a+rX", dir).CombinedOutput()
			if err != nil {
				t.Fatalf("%s", out)
			}
			if got := run(t, "read", dir, as); got != "read 1" {
				t.Errorf("read: %s", got)
			}
			if got := run(t, "write", dir, as); !strings.HasPrefix(got, "denied") {
				t.Errorf("write: %s", got)
			}
			must(t, os.Chmod(filepath.Join(dir, "journal"), 0o600))
			if got := run(t, "read", dir, as); !strings.HasPrefix(got, "denied") {
				t.Errorf("closed file: %s", got)
			}
		})
	}
}

// A full disk refuses, loses nothing, and is not taken for damage.
func TestFullDisk(t *testing.T) {
	needRoot(t)
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	dir := filepath.Join(disk, "store")
	s, err := filestore.Open(t.Context(), dir, &filestore.Options{Create: true})
	must(t, err)
	defer func() { _ = s.Close() }()
	ballast := filepath.Join(disk, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600))
	value := `{"pad":"` + strings.Repeat("x", 60_000) + `"}`
	var last int64
	for i := range 60 {
		rev, err := s.Commit(t.Context(), put("lock/"+strings.Repeat("a", i+1), value))
		if err != nil {
			if !errors.Is(err, driver.ErrFull) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("got %v", err)
			}
			break
		}
		last = rev
	}
	snap, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{}}})
	must(t, err)
	if snap.Rev != last || last == 0 || len(snap.Records) != int(last) {
		t.Errorf("%d records at revision %d, acknowledged %d", len(snap.Records), snap.Rev, last)
	}
	if _, err := filestore.Open(t.Context(), filepath.Join(disk, "another"), &filestore.Options{Create: true}); !errors.Is(err, driver.ErrFull) {
		t.Errorf("a new store: %v", err)
	}
	must(t, os.RemoveAll(filepath.Join(disk, "another")))
	must(t, os.Remove(ballast))
	if _, err := s.Commit(t.Context(), put("lock/last", value)); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if got, _, err := all(t, dir); err != nil || len(got) != int(last)+1 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: changes owners or mounts")
	}
}
