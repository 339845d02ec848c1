package local

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

// CheckFile is [File] for a driver that already has the info, through a handle
// on the folder.
func CheckFile(path string, fi fs.FileInfo) error {
	if fi.Mode()&fs.ModeSymlink != 0 {
		return symlink(path)
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file; move it away", driver.ErrDamaged, path)
	}
	return checkOwner(path, fi)
}

// CheckDir is [SubDir] for a driver that already has the info.
func CheckDir(path string, fi fs.FileInfo) error { return checkDirInfo(path, fi) }

// Denied marks an error that means "not allowed" with driver.ErrDenied, and
// returns others unchanged.
func Denied(err error) error { return denied(err) }

// Full marks an error that means a full disk, and returns others unchanged. It
// is for failures before anything of a commit can be seen.
func Full(err error) error {
	if err == nil || !host.NoSpace(err) || errors.Is(err, driver.ErrFull) {
		return err
	}
	return fmt.Errorf("%w: %w; make room and repeat the command", driver.ErrFull, err)
}
