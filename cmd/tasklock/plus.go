package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tasklock/tasklock/internal/cli/session"
)

// plus goes on as tasklock-plus with the same arguments, and returns only when
// that cannot be. It takes the program that lies beside this one and never one
// from the PATH: they are built and installed together.
func plus() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	name := filepath.Join(filepath.Dir(self), "tasklock-plus")
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if _, err := os.Stat(name); err != nil {
		return fmt.Errorf("%w: %s is not there; install both programs: make install", session.ErrIncomplete, name)
	}
	return become(name, append([]string{os.Args[0]}, os.Args[1:]...))
}
