//go:build unix

package local

import (
	"errors"
	"io/fs"
	"syscall"
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
