// Package local holds what drivers on a local disk have in common: a folder
// that is safe to use ([Dir], [File]), a fair gate between processes ([Gate]),
// a clock whose readings survive a changed wall clock ([Stamp]) and wake-up of
// waiters in other processes ([Wake]).
//
// # Guarantees
//
// A folder that Dir accepts belongs to us or to root, is not a symlink, cannot
// be written by others and lies on a file system whose locks work. One caller on
// the machine holds a Gate at a time, and the kernel opens it when its holder
// dies. An age by Stamp never shrinks because somebody set the clock.
//
// # Limits
//
// Gate and Wake serve liveness and fairness, not safety: drivers must stay
// right when the gate's file was removed and when no wake-up ever comes. Between
// two boots, and on systems without a boot id, ages come from the wall clock.
//
// # Failure
//
// Dir refuses an unsafe folder with driver.ErrUnsafe and a next step. When the
// kernel refuses notifications, waiters poll.
package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

// DirOptions change what [Dir] accepts.
type DirOptions struct {
	Create        bool // make the folder when it is missing
	AllowUnsafeFS bool // accept a file system whose locks cannot be trusted
}

// Dir verifies that the folder at path can hold a store, after making it if
// that is allowed. A new folder is 0700 whatever the umask says, and git
// ignores it. A missing one is driver.ErrMissing. Dir reports whether the file
// system's locks can be trusted.
func Dir(path string, o DirOptions) (safeFS bool, err error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) && o.Create {
		if _, err := fileSystem(path, o.AllowUnsafeFS); err != nil {
			return false, err
		}
		if err := Full(denied(makeDir(path))); err != nil {
			return false, err
		}
		fi, err = os.Lstat(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("%w: no folder %s", driver.ErrMissing, path)
	case err != nil:
		return false, denied(err)
	}
	if err := checkDirInfo(path, fi); err != nil {
		return false, err
	}
	return fileSystem(path, o.AllowUnsafeFS)
}

// File checks one file of a store without opening it, and returns nil info
// when there is none. SQLite loses its locks when anyone else in the process
// closes the file, so looking must be enough.
func File(path string) (fs.FileInfo, error) {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, denied(err)
	case fi.Mode()&fs.ModeSymlink != 0:
		return nil, symlink(path)
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a regular file; move it away", driver.ErrDamaged, path)
	}
	return fi, checkOwner(path, fi)
}

// SingleName refuses a file that has a second name: each name would have its own
// journal, and each process would recover only its own.
func SingleName(path string, fi fs.FileInfo) error {
	if links(fi) > 1 {
		return fmt.Errorf("%w: %s has another name (hard link); copy it to a file of its own", driver.ErrUnsafe, path)
	}
	return nil
}

// SingleMount refuses a file that is mounted under this name from elsewhere: its
// log, journal and gate would not be those of its own name.
func SingleMount(path string) error {
	if mounted(path) {
		return fmt.Errorf("%w: %s is a single file that is mounted from elsewhere; mount the folder that it is in", driver.ErrUnsafe, path)
	}
	return nil
}

// SubDir verifies a folder inside a store. A missing one is fine.
func SubDir(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return denied(err)
	}
	return checkDirInfo(path, fi)
}

func makeDir(path string) error {
	if err := makeAbove(filepath.Dir(path)); err != nil {
		return err
	}
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil // someone else was faster; it is checked like any other
	}
	if err == nil {
		err = os.Chmod(path, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(path, ".gitignore"), []byte("*\n"), 0o600)
	}
	if err != nil {
		return err
	}
	return host.SyncDir(filepath.Dir(path)) // or a loss of power takes the folder, and every commit in it
}

// makeAbove makes the folders above a store, and makes them last.
func makeAbove(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
		return err
	}
	if err := makeAbove(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return host.SyncDir(filepath.Dir(dir))
}

func checkDirInfo(path string, fi fs.FileInfo) error {
	if fi.Mode()&fs.ModeSymlink != 0 {
		return symlink(path)
	}
	if !fi.IsDir() {
		return fmt.Errorf("%w: %s is not a folder; move it away", driver.ErrDamaged, path)
	}
	if err := checkOwner(path, fi); err != nil {
		return err
	}
	if _, owned := host.Owner(fi); owned && fi.Mode().Perm()&0o022 != 0 && fi.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("%w: others may write in %s; run: chmod go-w %q", driver.ErrUnsafe, path, path)
	}
	return nil
}

// checkOwner accepts what is ours or root's: the owner of a file decides what is
// in it.
func checkOwner(path string, fi fs.FileInfo) error {
	uid, ok := host.Owner(fi)
	if !ok || uid == 0 || uid == os.Geteuid() {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to user %d, we are %d; use a store of your own", driver.ErrUnsafe, path, uid, os.Geteuid())
}

func symlink(path string) error {
	return fmt.Errorf("%w: %s is a symbolic link; name the place it points to instead", driver.ErrUnsafe, path)
}

// fileSystem refuses file systems that are shared over a network or with a
// host: their locks or their shared memory do not reach every participant.
func fileSystem(path string, allow bool) (safe bool, err error) {
	name, safe, err := host.FileSystem(path)
	if err != nil {
		return false, denied(err)
	}
	return safe, judge(path, name, safe || allow)
}

func judge(path, name string, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%w: %s is on %s, where locks between processes cannot be trusted; "+
		"use a folder on a local disk (or a PostgreSQL store to share between machines), or accept the risk with --allow-unsafe-fs",
		driver.ErrUnsafe, path, name)
}

// denied marks an error that means "not allowed", and returns others unchanged.
func denied(err error) error {
	if errors.Is(err, fs.ErrPermission) || readOnlyFS(err) {
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return err
}
