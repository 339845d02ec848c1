//go:build !linux

package filestore

import (
	"errors"
	"os"
	"syscall"
)

// syncData makes what was written to f survive loss of power.
func syncData(f *os.File) error { return f.Sync() }

// mount is for systems that name their mounts.
func mount(*os.File) string { return "" }

func noSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) }
