// Package session is one run of a command: who calls, from where, with which
// configuration and store, how it answers, and what its errors mean.
//
// stdout is data, stderr everything else. Nothing here calls os.Exit, and a
// command that ends soon does not close its store: the process ends anyway,
// and closing a database costs more than opening it.
package session

import (
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

	line     line     // what was typed
	settings settings // read once, when they are first needed
	caller   caller   // found once, when it is first needed
	opened   opened   // opened once, when it is first needed
}

// New is a command that has read nothing yet.
func New(p Process, can Program, args []string) *Session {
	return &Session{Process: p, Program: can, line: line{words: args, started: time.Now()}}
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
	set.StringVar(&f.Timeout, "timeout", "", "how long to wait for a silent server (default: git 30s, PostgreSQL and https 10s, etcd 3s; also: TASKLOCK_STORE_TIMEOUT)")
	set.BoolVar(&f.UnsafeFS, "allow-unsafe-fs", false, "accept a file system with unreliable locks")
}

// settings are the configuration, or why there is none.
type settings struct {
	cfg *config.Config
	err error
}

// url is the store in use, empty if nobody has read the configuration or it is wrong.
func (c settings) url() string {
	if c.cfg == nil {
		return ""
	}
	url, _ := c.cfg.Store()
	return url
}

// caller is who runs the command.
type caller struct {
	id     identity.Identity
	warned bool // that its name does not last
}

// opened is the store of the command.
type opened struct {
	store     *store.Store
	asOf      *time.Time // with --offline: when that was true
	heartbeat *heartbeatStore
}
