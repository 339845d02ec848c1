package local

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// Symlinks need a privilege on Windows, and lstat does not show hard link counts
// there; access lists of the folder are the protection.
const noFollow = 0

func links(fs.FileInfo) uint64 { return 1 }

func readOnlyFS(error) bool { return false }

// A lockFile is a lock on a file that stays open.
type lockFile struct {
	path string
	file *os.File
}

// lock waits in the kernel if wait is set; otherwise ok is false when another
// process holds the file.
func (f *lockFile) lock(wait bool) (ok bool, err error) {
	if f.file == nil {
		if f.file, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return false, err
		}
	}
	how := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK)
	if !wait {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	err = windows.LockFileEx(windows.Handle(f.file.Fd()), how, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

func (f *lockFile) unlock() {
	_ = windows.UnlockFileEx(windows.Handle(f.file.Fd()), 0, 1, 0, new(windows.Overlapped))
}

func (f *lockFile) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}
