package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
)

type mcpOptions struct {
	ttl, maxHold session.DurationFlag
	listen, key  string
	hosts        []string
}

// httpMaxHold limits how long a vanished client keeps others out.
const httpMaxHold = 4 * time.Hour

func NewMCP(s *session.Session) *cobra.Command {
	o := &mcpOptions{}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve coding agents that speak the Model Context Protocol",
		Long: `Offer acquire, add, claim, complete, release, status, tasks and wait as tools of the
Model Context Protocol, on stdin and stdout.

The server renews what it holds. When its client closes the pipe or dies, the server
ends and releases everything; when the server is killed, its locks are free at once.

With --http it serves all clients on this machine that have the access key. The key
is in TASKLOCK_ACCESS_KEY or in a file that only you can read; the server makes the
file if there is none. Beyond this machine it listens only with a key that you
chose, and only under names given with --allow-host. Put TLS in front of it.`,
		Example: `  claude mcp add tasklock -- tasklock mcp
  tasklock mcp --http 127.0.0.1:7420`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return o.run(ctx, s) }),
	}
	o.ttl = session.DurationFlag{Min: lease.MinTTL, Max: lease.MaxTTL}
	o.maxHold = session.DurationFlag{Min: lease.MinTTL, Max: 365 * 24 * time.Hour}
	f := cmd.Flags()
	f.Var(&o.ttl, "ttl", "expire after this long without a heartbeat of this server (default 5m; git 1h)")
	f.Var(&o.maxHold, "max-hold", "do not renew a lock beyond this (default: no limit; with --http 4h)")
	f.StringVar(&o.listen, "http", "", "serve HTTP at this `ADDRESS`, like 127.0.0.1:7420")
	f.StringVar(&o.key, "access-key-file", "", "`FILE` with the access key for --http")
	f.StringSliceVar(&o.hosts, "allow-host", nil, "accept this host `NAME` besides localhost")
	return cmd
}

func (o *mcpOptions) run(ctx context.Context, s *session.Session) error {
	switch {
	case s.DryRun:
		return session.Usagef("mcp has no dry run")
	case o.listen == "" && (o.key != "" || len(o.hosts) > 0):
		return session.Usagef("--access-key-file and --allow-host go with --http")
	case s.MCP == nil && s.Plus != nil:
		return s.Plus()
	case s.MCP == nil:
		return fmt.Errorf("%w: this program has no MCP server", session.ErrIncomplete)
	}
	r, err := o.request(s)
	if err != nil {
		return err
	}
	if r.Store, err = s.Store(ctx, true); err != nil {
		return err
	}
	ctx, stop := session.Listen(ctx)
	defer stop()
	if o.listen == "" {
		r.Stdin, r.Stdout = io.NopCloser(s.Stdin), discardClose{s.Stdout}
		ctx = whileParentLives(ctx)
	} else if err := o.http(s, &r); err != nil {
		return err
	}
	return s.MCP(ctx, r)
}

func (o *mcpOptions) request(s *session.Session) (session.MCPRequest, error) {
	if _, err := s.Config(); err != nil {
		return session.MCPRequest{}, err
	}
	id := s.Identity()
	r := session.MCPRequest{
		Owner: id.Owner, Session: id.Session, Caller: mcpCaller(s), TTL: o.ttl.Value, MaxHold: o.maxHold.Value,
		Keys: s.Keys, Version: s.ProgramVersion(),
		Note: func(text string) { s.Note("%s", text) },
	}
	if o.listen != "" && !o.maxHold.Given {
		r.MaxHold = httpMaxHold
	}
	return r, lease.CheckOwner(r.Owner)
}

// mcpCaller names the owner of a call on the server's pipe. Codex names session and
// thread with every call. For others it uses the notes of their hooks, which may come
// after the start of the server, and again for each new session.
func mcpCaller(s *session.Session) func(session, thread string) (owner, sessionID string) {
	in := s.IdentityInput()
	return func(session, thread string) (string, string) {
		id := identity.IdentifyServer(in)
		if session != "" {
			id = identity.Session{Harness: "codex", ID: session, Agent: thread}.Identify(in)
		}
		return id.Owner, id.Session
	}
}

// http finds the access key and begins to listen.
func (o *mcpOptions) http(s *session.Session, r *session.MCPRequest) error {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return session.Usagef("--http: %v; as in 127.0.0.1:7420", err)
	}
	ip := net.ParseIP(host)
	near := host == "localhost" || ip != nil && ip.IsLoopback()
	var from string
	if r.AccessKey, from, err = accessKey(s, o.key, near); err != nil {
		return err
	}
	for _, h := range o.hosts {
		r.Hosts = append(r.Hosts, strings.ToLower(strings.Trim(h, "[]")))
	}
	if ip != nil && !ip.IsUnspecified() {
		r.Hosts = append(r.Hosts, ip.String())
	}
	if r.Listener, err = net.Listen("tcp", o.listen); err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	s.Note("Serving MCP at http://%s/mcp; the access key is in %s.", r.Listener.Addr().String(), from)
	return nil
}

// whileParentLives ends with the process that started this one. Its end of the
// pipe may live on in a child that it left behind.
func whileParentLives(ctx context.Context) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for os.Getppid() == parent {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		end(errors.New("the program that started it has ended"))
	}()
	return ctx
}

type discardClose struct{ io.Writer }

func (discardClose) Close() error { return nil }

var errNoKey = fmt.Errorf("%w: others can reach that address: choose an access key of 32 characters or more, in TASKLOCK_ACCESS_KEY or --access-key-file", driver.ErrUnsafe)
