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
	"github.com/tasklock/tasklock/store/filestore"
	"github.com/tasklock/tasklock/store/gitstore"
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
	scheme, place, err := split(url)
	switch {
	case err != nil:
		return nil, err
	case scheme == "file":
		return opened(filestore.Open(ctx, place, &filestore.Options{Create: o.Create, AllowUnsafeFS: o.AllowUnsafeFS, Poll: o.Poll}))
	case scheme == "git":
		remote, branch, _ := strings.Cut(place, "#")
		return opened(gitstore.Open(ctx, remote, &gitstore.Options{Branch: branch, Create: o.Create, Poll: o.Poll}))
	}
	return opened(sqlitestore.Open(ctx, place, &sqlitestore.Options{Create: o.Create, AllowUnsafeFS: o.AllowUnsafeFS, Poll: o.Poll}))
}

// opened is the driver or the error, and never a nil pointer in an interface.
// What is no answer of the store, an error of the disk say, means that it
// could not be reached: exit 8, as when the same happens later.
func opened[S driver.Store](s S, err error) (driver.Store, error) {
	switch {
	case err == nil:
		return s, nil
	case driver.Refusal(err):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", store.ErrUnreachable, err)
}

func inspect(ctx context.Context, url string) (cli.InspectReport, error) {
	scheme, place, err := split(url)
	switch {
	case err != nil:
		return cli.InspectReport{}, err
	case scheme == "file":
		r, err := filestore.Inspect(ctx, place)
		return cli.InspectReport(r), err
	case scheme == "git":
		remote, branch, _ := strings.Cut(place, "#")
		r, err := gitstore.Inspect(ctx, remote, &gitstore.Options{Branch: branch})
		return cli.InspectReport{Path: url, SafeFS: true, Problems: r.Problems}, err
	}
	r, err := sqlitestore.Inspect(ctx, place)
	return cli.InspectReport(r), err
}

// split takes a store's name apart: sqlite:PATH or a bare path, file:FOLDER,
// git:REMOTE or git:REMOTE#branch.
func split(url string) (scheme, place string, err error) {
	scheme, place, ok := strings.Cut(url, ":")
	if !ok || len(scheme) == 1 { // a drive letter
		return "sqlite", url, nil
	}
	switch scheme {
	case "sqlite", "file":
		place = strings.TrimPrefix(place, "//")
	case "git":
	default:
		place = ""
	}
	if place == "" {
		return "", "", &lock.InvalidError{What: "store " + scheme + ":", Rule: "must be sqlite:PATH, file:FOLDER, git:REMOTE or a path"} // the rest may hold a password
	}
	return scheme, place, nil
}
