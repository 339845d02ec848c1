// Package cli is the tasklock command: flags in, the functions of the other
// packages in the middle, text or JSON out.
//
// Every command is one file: an options struct, its flags, and one run. The
// rules are elsewhere, and so is what an error means (package problem). What is
// decided here is how things look, and how text of strangers is shown (clean.go,
// the only door to a terminal).
//
// stdout is data, stderr everything else. Nothing here calls os.Exit, and a
// command that ends soon does not close its store: the process ends anyway,
// and closing a database costs more than opening it.
package cli

import (
	"context"
	"io"
	"time"

	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// App is one run of the command. The caller fills in the first block.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            func(string) string // os.Getenv
	Environ        []string            // os.Environ(), for the child of run
	Dir            string              // current folder
	Open           Opener
	Now            func() time.Time
	Version        string // empty: what the Go toolchain recorded

	// Plus goes on as tasklock-plus, which has what is slow to load, and returns
	// only when it cannot. In tasklock-plus it is nil.
	Plus func() error

	// MCP serves the Model Context Protocol. Only tasklock-plus has it.
	MCP func(context.Context, MCPRequest) error

	// Flags of every command.
	JSON     bool
	Quiet    bool
	DryRun   bool
	NoColor  bool
	Owner    string // --owner; empty: by the chain of package identity
	StoreURL string // --store; empty: by the configuration
	UnsafeFS bool   // --allow-unsafe-fs
	Timeout  string // --timeout; empty: by the configuration

	noWait  bool      // TASKLOCK_NO_WAIT
	founds  bool      // init: a folder that has no store gets one of its own
	lenient bool      // a hook: where no store can be made, nothing is locked
	insists bool      // init --local: although a remote has one
	offline bool      // --offline, of commands that look
	asOf    time.Time // of when that is
	args    []string  // of the command
	keyArgs []string  // those before "--"

	started  time.Time         // the command was
	command  string            // the command that runs: "locks list"
	flags    map[string]string // those above that were given and can be configured
	says     string            // what a command that prints several answers is about to say
	words    []string          // the command line as it was given
	retry    []string          // the command line that goes on waiting
	wait     time.Duration     // how long the command may wait,
	waitEnds time.Time         // and until when; zero: it has not begun to
	titles   map[string]string // of the tasks it is about, by id; set once

	cfg    *Config
	cfgErr error
	id     identity.Identity
	warned bool
	st     *store.Store
	life   *lifeStore
}

// ErrIncomplete means that a program which belongs to this one is not there.
var ErrIncomplete error = incompleteError{}

type incompleteError struct{}

func (incompleteError) Error() string { return "the installation is incomplete" }

func (incompleteError) Problem(problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.Setup, Code: "INCOMPLETE_INSTALLATION"}
}

// An Opener opens the store that a URL names, as [driver.Open] does.
type Opener func(ctx context.Context, url string, o *driver.OpenOptions) (driver.Store, error)
