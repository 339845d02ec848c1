//go:build linux || darwin

package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FileSystem names the kind of file system that holds path, or will hold it,
// and reports whether locks and mmap on it work among all processes that can
// reach it.
func FileSystem(path string) (name string, safe bool, err error) {
	var st unix.Statfs_t
	if err := statNearest(path, &st); err != nil {
		return "", false, err
	}
	name, safe = judge(&st)
	return name, safe, nil
}

// statNearest climbs to the nearest parent that exists. A link that points to
// nothing yet is followed: the file will be created where it points.
func statNearest(path string, st *unix.Statfs_t) error {
	const maxSteps = 1000 // links can loop through missing folders
	at := path
	for range maxSteps {
		err := unix.Statfs(at, st)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, fs.ErrNotExist):
			return &fs.PathError{Op: "statfs", Path: path, Err: err}
		}
		parent := filepath.Dir(at)
		target, err := os.Readlink(at)
		switch {
		case err != nil:
			at = parent
		case filepath.IsAbs(target):
			at = target
		default:
			at = filepath.Join(parent, target)
		}
	}
	return &fs.PathError{Op: "statfs", Path: path, Err: unix.ELOOP}
}
