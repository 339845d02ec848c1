// Package backend is what both commands start with, and the drivers that both
// have. The driver that is slow to load is in tasklock-plus alone, so that nobody
// pays for it who does not use it.
package backend

import (
	"os"
	"time"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/store/driver"
	_ "github.com/tasklock/tasklock/store/filestore" // a driver registers itself
	_ "github.com/tasklock/tasklock/store/gitstore"
	_ "github.com/tasklock/tasklock/store/pgstore"
	_ "github.com/tasklock/tasklock/store/sqlitestore"
)

// Process is this one, as it was started.
func Process() session.Process {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	return session.Process{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env: os.Getenv, Environ: os.Environ(), Dir: dir, Now: time.Now,
	}
}

// Program is what every tasklock can do.
func Program(version string) session.Program {
	return session.Program{Open: driver.Open, Version: version}
}
