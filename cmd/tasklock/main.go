// Command tasklock keeps concurrent workers from doing the same task twice.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/tasklock/tasklock/internal/backend"
	"github.com/tasklock/tasklock/internal/cli"
	"github.com/tasklock/tasklock/store/driver"
)

var version string // set by the linker

func main() {
	app := backend.App(version)
	app.Open, app.Inspect, app.Plus, app.Elsewhere = open, inspect, plus, backend.Elsewhere
	os.Exit(cli.Main(os.Args[1:], app))
}

// open says why a store whose driver is slow to load was not left to
// tasklock-plus, which the command has tried before.
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
