//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/tasklock/tasklock/repo"
)

// writable tells why a folder or file cannot be written; nil if it can. It
// asks the kernel and tries nothing.
func writable(path string) error {
	mode := uint32(unix.W_OK)
	if repo.IsDir(path) {
		mode |= unix.R_OK | unix.X_OK
	}
	return unix.Access(path, mode)
}

// room is how many bytes we may still write in a folder; -1: unknown.
func room(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil || s.Blocks == 0 {
		return -1 // some file systems do not count
	}
	free := uint64(s.Bavail)
	if os.Geteuid() == 0 {
		free = s.Bfree // root may use what is kept back
	}
	return int64(min(free, 1<<40) * uint64(s.Bsize))
}
