// Command tasklock-plus is tasklock with everything that is slow to load. It
// lies beside tasklock, which becomes it when a store's URL or a command needs
// it; nobody has to call it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/tasklock/tasklock/internal/backend"
	"github.com/tasklock/tasklock/internal/cli"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/etcdstore"
)

var version string // set by the linker

func main() {
	app := backend.App(version)
	app.Open, app.Inspect, app.MCP = open, inspect, serveMCP
	os.Exit(cli.Main(os.Args[1:], app))
}

func open(ctx context.Context, url string, o cli.OpenOptions) (driver.Store, error) {
	if backend.Elsewhere(url) {
		return backend.Opened(etcdstore.Open(ctx, url, &etcdstore.Options{Create: o.Create, Poll: o.Poll, Timeout: o.Timeout}))
	}
	return backend.Open(ctx, url, o)
}

func inspect(ctx context.Context, url string) (cli.InspectReport, error) {
	if !backend.Elsewhere(url) {
		return backend.Inspect(ctx, url)
	}
	r, err := etcdstore.Inspect(ctx, url)
	if err != nil && !driver.Refusal(err) {
		err = fmt.Errorf("%w: %w", store.ErrUnreachable, err)
	}
	out := cli.InspectReport{SafeFS: true, Problems: r.Problems, Facts: r.Facts()}
	for _, w := range r.Warnings {
		out.Warnings = append(out.Warnings, cli.Warning(w))
	}
	return out, err
}
