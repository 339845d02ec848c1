// Command tasklock-plus is tasklock with everything that is slow to load. It
// lies beside tasklock, which becomes it when a store's URL or a command needs
// it; nobody has to call it.
package main

import (
	"os"

	"github.com/tasklock/tasklock/internal/backend"
	"github.com/tasklock/tasklock/internal/cli"
	_ "github.com/tasklock/tasklock/store/etcdstore" // a driver registers itself
	_ "github.com/tasklock/tasklock/store/httpstore"
)

var version string // set by the linker

func main() {
	can := backend.Program(version)
	can.MCP = serveMCP
	can.Serve = serveHTTP
	os.Exit(cli.Main(os.Args[1:], backend.Process(), can))
}
