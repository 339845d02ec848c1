package host

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A FileID distinguishes a file from every other one that exists.
type FileID struct{ dev, ino uint64 }

// IDOf returns the id of a file whose info was read before.
func IDOf(fi fs.FileInfo) FileID {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return FileID{}
	}
	return FileID{dev: st.Dev, ino: st.Ino}
}

// LookID returns the id of the file at path; it follows no link. It does not ask
// for the file's times. A file system with precise times notes that somebody saw
// one, gives the next write another, and then a sync of that write has to sync
// the file's metadata too, which takes as long as the data.
func LookID(path string) (FileID, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO, &st)
	if err == nil && st.Mask&unix.STATX_INO != 0 {
		return FileID{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino}, nil
	}
	fi, err := os.Lstat(path) // a sandbox may not know statx
	if err != nil {
		return FileID{}, err
	}
	return IDOf(fi), nil
}

// Is reports whether both are of one file.
func (id FileID) Is(other FileID) bool { return id == other && id.ino != 0 }
