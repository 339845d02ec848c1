// Command tasklock keeps concurrent workers from doing the same task twice.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tasklock/tasklock/cli"
	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

var version string // set by the linker

func main() {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	os.Exit(cli.Main(os.Args[1:], cli.App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env: os.Getenv, Environ: os.Environ(), Dir: dir,
		Open: open, Inspect: inspect, Now: time.Now, Version: version,
	}))
}

// open knows the drivers. SQLite is the default.
func open(ctx context.Context, url string, o cli.OpenOptions) (driver.Store, error) {
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	st, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{Create: o.Create, AllowUnsafeFS: o.AllowUnsafeFS, Poll: o.Poll})
	switch {
	case err == nil:
		return st, nil // never a nil *sqlitestore.Store
	case driver.Refusal(err):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", store.ErrUnreachable, err) // an error of the disk
}

func inspect(ctx context.Context, url string) (cli.InspectReport, error) {
	path, err := sqlitePath(url)
	if err != nil {
		return cli.InspectReport{}, err
	}
	r, err := sqlitestore.Inspect(ctx, path)
	return cli.InspectReport(r), err
}

// sqlitePath is the path in sqlite:PATH, sqlite://PATH or a bare path.
func sqlitePath(url string) (string, error) {
	scheme, path, ok := strings.Cut(url, ":")
	if !ok || len(scheme) == 1 { // a drive letter
		return url, nil
	}
	path = strings.TrimPrefix(path, "//")
	if scheme != "sqlite" || path == "" {
		return "", &lock.InvalidError{What: "store " + url, Rule: "must be sqlite:PATH or a path"}
	}
	return path, nil
}
