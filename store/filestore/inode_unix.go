//go:build unix

package filestore

import (
	"io/fs"
	"strconv"
	"syscall"
)

// inode distinguishes a file from a copy of it.
func inode(fi fs.FileInfo) string {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(st.Ino), 36)
	}
	return ""
}
