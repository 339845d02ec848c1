// Package backend is what both commands start with, and the drivers that both
// have. The driver that is slow to load is in tasklock-plus alone, so that nobody
// pays for it who does not use it.
package backend

import (
	"os"
	"time"

	"github.com/tasklock/tasklock/internal/cli"
	"github.com/tasklock/tasklock/store/driver"
	_ "github.com/tasklock/tasklock/store/filestore" // a driver registers itself
	_ "github.com/tasklock/tasklock/store/gitstore"
	_ "github.com/tasklock/tasklock/store/pgstore"
	_ "github.com/tasklock/tasklock/store/sqlitestore"
)

// App is the command as this process was started.
func App(version string) cli.App {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	return cli.App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env: os.Getenv, Environ: os.Environ(), Dir: dir,
		Open: driver.Open, Now: time.Now, Version: version,
	}
}
