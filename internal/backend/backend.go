// Package backend is the switch on a store's URL, shared by the commands: the
// one place that names drivers. What is slow to load is not here but in
// tasklock-plus, so that a command does not pay for a driver it does not use.
package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/cli"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/filestore"
	"github.com/tasklock/tasklock/store/gitstore"
	"github.com/tasklock/tasklock/store/pgstore"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

// ErrPlus means that the driver for this URL is linked into tasklock-plus only.
var ErrPlus = errors.New("the driver for this store is part of tasklock-plus")

// App is the command as this process was started.
func App(version string) cli.App {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	return cli.App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env: os.Getenv, Environ: os.Environ(), Dir: dir,
		Open: Open, Inspect: Inspect, Special: special, Now: time.Now, Version: version,
	}
}

// Open knows the drivers. SQLite is the default.
func Open(ctx context.Context, url string, o cli.OpenOptions) (driver.Store, error) {
	scheme, place, err := Split(url)
	if err != nil {
		return nil, err
	}
	switch scheme {
	case "file":
		return Opened(filestore.Open(ctx, place, &filestore.Options{Create: o.Create, AllowUnsafeFS: o.AllowUnsafeFS, Poll: o.Poll}))
	case "git":
		remote, branch, _ := strings.Cut(place, "#")
		return Opened(gitstore.Open(ctx, remote, &gitstore.Options{Branch: branch, Create: o.Create, Poll: o.Poll, Timeout: o.Timeout}))
	case "postgres", "postgresql":
		return Opened(pgstore.Open(ctx, place, &pgstore.Options{Create: o.Create, Upgrade: o.Upgrade, Poll: o.Poll, Timeout: o.Timeout}))
	case "etcd", "etcds":
		return nil, ErrPlus
	}
	return Opened(sqlitestore.Open(ctx, place, &sqlitestore.Options{Create: o.Create, AllowUnsafeFS: o.AllowUnsafeFS, Raise: o.Raise, Poll: o.Poll}))
}

// Opened is the driver or the error, and never a nil pointer in an interface.
// What is no answer of the store, an error of the disk say, means that it
// could not be reached: exit 8, as when the same happens later.
func Opened[S driver.Store](s S, err error) (driver.Store, error) {
	if err != nil {
		return nil, as(store.ErrUnreachable, err)
	}
	return s, nil
}

// Inspect looks into a store for doctor.
func Inspect(ctx context.Context, url string) (cli.InspectReport, error) {
	scheme, place, err := Split(url)
	if err != nil {
		return cli.InspectReport{}, err
	}
	switch scheme {
	case "file":
		r, err := filestore.Inspect(ctx, place)
		return onDisk(sqlitestore.Report(r)), err
	case "git":
		remote, branch, _ := strings.Cut(place, "#")
		r, err := gitstore.Inspect(ctx, remote, &gitstore.Options{Branch: branch})
		facts := fmt.Sprintf("git %s, revision %d, %d records, history of %d commits", r.GitVersion, r.Revision, r.Records, r.Commits)
		return cli.InspectReport{Path: url, SafeFS: true, Facts: facts, Problems: r.Problems}, err
	case "postgres", "postgresql":
		return postgres(ctx, place)
	case "etcd", "etcds":
		return cli.InspectReport{}, ErrPlus
	}
	r, err := sqlitestore.Inspect(ctx, place)
	return onDisk(r), err
}

func onDisk(r sqlitestore.Report) cli.InspectReport {
	return cli.InspectReport{
		Path: r.Path, FileSystem: r.FileSystem, SafeFS: r.SafeFS, JournalMode: r.JournalMode,
		Version: r.Version, Bytes: r.Bytes, LogBytes: r.LogBytes, Problems: r.Problems,
	}
}

// Elsewhere reports whether the driver for a URL is part of tasklock-plus.
func Elsewhere(url string) bool {
	scheme, _, err := Split(url)
	return err == nil && (scheme == "etcd" || scheme == "etcds")
}

// Split takes a store's name apart: sqlite:PATH or a bare path, file:FOLDER,
// git:REMOTE or git:REMOTE#branch, postgres://USER@HOST/DATABASE,
// etcd://HOST:PORT/PREFIX.
func Split(url string) (scheme, place string, err error) {
	scheme, place, ok := strings.Cut(url, ":")
	if !ok || len(scheme) == 1 { // a drive letter
		return "sqlite", url, nil
	}
	switch scheme {
	case "sqlite", "file":
		place = strings.TrimPrefix(place, "//")
	case "git":
	case "etcd", "etcds", "postgres", "postgresql":
		place = url
	default:
		place = ""
	}
	if place == "" {
		return "", "", &lease.InvalidError{What: "store " + scheme + ":", Rule: "must be sqlite:PATH, file:FOLDER, git:REMOTE, postgres://USER@HOST/DATABASE, etcd://HOST:PORT/PREFIX or a path"} // the rest may hold a password
	}
	return scheme, place, nil
}
