//go:build unix

package setupcmd

import (
	"os"

	"golang.org/x/sys/unix"
)

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
