//go:build unix

package main

import (
	"os"
	"syscall"
)

// become replaces this process.
func become(name string, argv []string) error {
	return &os.PathError{Op: "exec", Path: name, Err: syscall.Exec(name, argv, os.Environ())}
}
