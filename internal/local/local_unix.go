//go:build unix

package local

import (
	"errors"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow makes opening a symlink an error.
const noFollow = syscall.O_NOFOLLOW

func links(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

func readOnlyFS(err error) bool { return errors.Is(err, syscall.EROFS) }

// A lockFile is an flock on a file that stays open. It is a bare descriptor:
// an os.File would be opened, registered with the poller and closed again for
// every commit.
type lockFile struct {
	path string
	fd   int
	open bool
}

// lock waits in the kernel if wait is set; otherwise ok is false when another
// process holds the file.
func (f *lockFile) lock(wait bool) (ok bool, err error) {
	if !f.open {
		if f.fd, err = openLock(f.path); err != nil {
			return false, err
		}
		f.open = true
	}
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		switch err := unix.Flock(f.fd, how); err {
		case nil:
			return true, nil
		case unix.EWOULDBLOCK:
			return false, nil
		case unix.EINTR:
		default:
			return false, err
		}
	}
}

func openLock(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func (f *lockFile) unlock() { _ = unix.Flock(f.fd, unix.LOCK_UN) }

func (f *lockFile) close() {
	if f.open {
		_ = unix.Close(f.fd)
		f.open = false
	}
}
