package filestore

import (
	"os"

	"golang.org/x/sys/unix"
)

// move renames a file from one folder to another.
func (t *tree) move(from *folder, name string, to *folder, newName string) error {
	return t.rename(from, name, to, newName, 0)
}

// swap lets two files change their places.
func (t *tree) swap(a *folder, name string, b *folder, other string) error {
	return t.rename(a, name, b, other, unix.RENAME_EXCHANGE)
}

func (t *tree) rename(from *folder, name string, to *folder, newName string, how uint) error {
	for _, f := range []*folder{from, to} {
		if err := f.dir.open(t.s.path(f.path)); err != nil {
			return err
		}
	}
	for {
		err := unix.Renameat2(from.dir.fd, name, to.dir.fd, newName, how)
		if err != unix.EINTR {
			return os.NewSyscallError("renameat2", err)
		}
	}
}

// A handle is a bare descriptor: an os.File of a folder costs nine system
// calls.
type handle struct {
	fd   int
	used bool
}

func (h *handle) open(path string) (err error) {
	for !h.used {
		h.fd, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil && err != unix.EINTR {
			return os.NewSyscallError("open", err)
		}
		h.used = err == nil
	}
	return nil
}

func (h *handle) close() {
	if h.used {
		_ = unix.Close(h.fd)
	}
}
