package session

import (
	"context"
	"io"
	"net"
	"runtime/debug"
	"time"

	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

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
	// Serve serves the operations over HTTP. Only tasklock-plus has it.
	Serve func(context.Context, ServeRequest) error
}

// ErrIncomplete means that a program which belongs to this one is missing.
var ErrIncomplete error = incompleteError{}

type incompleteError struct{}

func (incompleteError) Error() string { return "the installation is incomplete" }

func (incompleteError) Problem(problem.Caller) problem.Problem {
	return problem.Problem{Exit: problem.Setup, Code: "INCOMPLETE_INSTALLATION"}
}

// An Opener opens the store that a URL names, as [driver.Open] does.
type Opener func(ctx context.Context, url string, o *driver.OpenOptions) (driver.Store, error)

// MCPRequest is what a server of the Model Context Protocol needs to know. It
// is linked into tasklock-plus only, see Program.MCP.
type MCPRequest struct {
	Store *store.Store
	Owner string

	TTL, MaxHold time.Duration
	Session      string
	Caller       func(session, thread string) (owner, sessionID string)
	Keys         func([]string) ([]string, error)
	Note         func(text string)
	Version      string

	Stdin  io.ReadCloser // to talk to the one client there; nil: Listener is set
	Stdout io.WriteCloser

	Listener  net.Listener
	AccessKey string
	Hosts     []string
}

// ServeRequest is what a server of operations needs to know. It is linked into
// tasklock-plus only, see Program.Serve.
type ServeRequest struct {
	Store           *store.Store
	Peers           driver.Store // the store itself, for keys of role peer; nil: not for them
	Listener        net.Listener
	TLSCert, TLSKey string // files; empty: no TLS
	Hosts           []string
	Prefix          string
	Note            func(text string)
}

// ProgramVersion is what version prints.
func (s *Session) ProgramVersion() string {
	if s.Version != "" {
		return s.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
