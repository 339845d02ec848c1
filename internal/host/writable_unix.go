//go:build unix

package host

import (
	"os"

	"golang.org/x/sys/unix"
)

// Writable says why a folder or file cannot be written; nil if it can. It
// asks the kernel and tries nothing.
func Writable(path string) error {
	mode := uint32(unix.W_OK)
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		mode |= unix.R_OK | unix.X_OK
	}
	return unix.Access(path, mode)
}
