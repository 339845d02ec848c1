// Command tasklock-plus is tasklock with everything that is slow to load. It
// lies beside tasklock, which becomes it when a store's URL or a command needs
// it; nobody has to call it.
package main

import (
	"os"

	"github.com/tasklock/tasklock/cli"
	"github.com/tasklock/tasklock/cmd/backend"
)

var version string // set by the linker

func main() {
	os.Exit(cli.Main(os.Args[1:], backend.App(version)))
}
