// Package session is one run of a command: who calls, from where, with which
// configuration and store, how it answers, and what its errors mean.
//
// stdout is data, stderr everything else. Nothing here calls os.Exit, and a
// command that ends soon does not close its store: the process ends anyway,
// and closing a database costs more than opening it.
package session

import (
	"context"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/store"
)

// Session is one run of the command.
type Session struct {
	Process // how it was started
	Program // what it can do
	Flags   // those of every command
	call    // the command line, as far as it was read
	search  // how a store is found if nobody names one
	known   // what was found once, when it was first needed
}

// New is a command that has read nothing yet.
func New(p Process, can Program, args []string) *Session {
	return &Session{Process: p, Program: can, call: call{Words: args, Started: time.Now()}}
}

// Process is what a command was started with.
type Process struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            func(string) string // os.Getenv
	Environ        []string            // os.Environ(), for the child of run
	Dir            string              // current folder
	Now            func() time.Time
}

// Flags are those of every command.
type Flags struct {
	JSON     bool
	Quiet    bool
	DryRun   bool
	NoColor  bool
	Owner    string // --owner; empty: by the chain of package identity
	StoreURL string // --store; empty: by the configuration
	UnsafeFS bool   // --allow-unsafe-fs
	Timeout  string // --timeout; empty: by the configuration
}

// Register makes them flags of a command.
func (f *Flags) Register(set *pflag.FlagSet) {
	set.BoolVar(&f.JSON, "json", false, "print JSON (also: TASKLOCK_JSON)")
	set.BoolVarP(&f.Quiet, "quiet", "q", false, "print only errors (also: TASKLOCK_QUIET)")
	set.BoolVar(&f.DryRun, "dry-run", false, "show what would happen, change nothing")
	set.BoolVar(&f.NoColor, "no-color", false, "no colour (also: NO_COLOR)")
	set.StringVar(&f.Owner, "owner", "", "your owner (also: TASKLOCK_OWNER; see whoami)")
	set.StringVar(&f.StoreURL, "store", "", "the URL of the store (also: TASKLOCK_STORE)")
	set.StringVar(&f.Timeout, "timeout", "", "how long to wait for a silent server (default: git 30s, PostgreSQL 10s, etcd 3s; also: TASKLOCK_STORE_TIMEOUT)")
	set.BoolVar(&f.UnsafeFS, "allow-unsafe-fs", false, "accept a file system with unreliable locks")
}

// call is the command line.
type call struct {
	Started time.Time
	Words   []string          // as it was given
	Command string            // the command that runs: "locks list"
	args    []string          // of the command
	keyArgs []string          // those before "--"
	flags   map[string]string // those that were given and can be configured
	NoWait  bool              // TASKLOCK_NO_WAIT
}

// search tells how a store is found.
type search struct {
	Founds  bool // init: a folder that has no store gets one of its own
	Lenient bool // a hook: without a place for a store nothing is locked
	Insists bool // init --local: even if a remote has one
	offline bool // --offline: what this machine last saw
}

// known is what a command asks for once.
type known struct {
	cfg       *config.Config
	cfgErr    error
	id        identity.Identity
	warned    bool // that the name of the caller does not last
	st        *store.Store
	asOf      time.Time // with --offline: when that was true
	heartbeat *heartbeatStore
}

// Program is what this program can do. The plain command leaves the parts that are
// slow to load to tasklock-plus.
type Program struct {
	Open    Opener
	Version string // empty: what the Go toolchain recorded

	// Plus continues as tasklock-plus, which has the parts that are slow to
	// load, and returns only on failure. In tasklock-plus it is nil.
	Plus func() error
	// MCP serves the Model Context Protocol. Only tasklock-plus has it.
	MCP func(context.Context, MCPRequest) error
}
