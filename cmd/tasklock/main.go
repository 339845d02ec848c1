// Command tasklock keeps concurrent workers from doing the same task twice.
package main

import (
	"os"

	"github.com/tasklock/tasklock/internal/backend"
	"github.com/tasklock/tasklock/internal/cli"
)

var version string // set by the linker

func main() {
	can := backend.Program(version)
	can.Plus = plus
	os.Exit(cli.Main(os.Args[1:], backend.Process(), can))
}
