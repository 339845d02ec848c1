//go:build unix

package sqlitestore

import "golang.org/x/sys/unix"

// readable and writable ask without opening: see local.File.
func readable(path string) bool { return unix.Access(path, unix.R_OK) == nil }
func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }
