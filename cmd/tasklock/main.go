// Command tasklock keeps concurrent workers from doing the same task twice.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/tasklock/tasklock/cli"
	"github.com/tasklock/tasklock/cmd/backend"
	"github.com/tasklock/tasklock/store/driver"
)

var version string // set by the linker

func main() {
	app := backend.App(version)
	app.Open, app.Inspect, app.Plus = open, inspect, plus
	os.Exit(cli.Main(os.Args[1:], app))
}

// open leaves stores whose driver is slow to load to tasklock-plus. A command
// opens its store before it has done anything else, so it can begin again.
func open(ctx context.Context, url string, o cli.OpenOptions) (driver.Store, error) {
	d, err := backend.Open(ctx, url, o)
	if errors.Is(err, backend.ErrPlus) {
		err = plus()
	}
	return d, err
}

func inspect(ctx context.Context, url string) (cli.InspectReport, error) {
	r, err := backend.Inspect(ctx, url)
	if errors.Is(err, backend.ErrPlus) {
		err = plus()
	}
	return r, err
}
