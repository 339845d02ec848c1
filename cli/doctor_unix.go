//go:build unix

package cli

import "golang.org/x/sys/unix"

// writable tells why a folder or file cannot be written; nil if it can. It
// asks the kernel and tries nothing.
func writable(path string) error {
	mode := uint32(unix.W_OK)
	if isDir(path) {
		mode |= unix.R_OK | unix.X_OK
	}
	return unix.Access(path, mode)
}
