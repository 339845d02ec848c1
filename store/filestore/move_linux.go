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
		if f.dir == nil {
			var err error
			if f.dir, err = f.Open("."); err != nil {
				return err
			}
		}
	}
	for {
		err := unix.Renameat2(int(from.dir.Fd()), name, int(to.dir.Fd()), newName, how)
		if err != unix.EINTR {
			return os.NewSyscallError("renameat2", err)
		}
	}
}
