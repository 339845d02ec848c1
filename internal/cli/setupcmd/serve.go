package setupcmd

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

type serveOptions struct {
	listen, cert, key, prefix string
	proxied, peers            bool
	hosts                     []string
}

func NewServe(s *session.Session) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve locks over HTTP, for clients with an access key",
		Long: `Serve the locks of this folder's store over HTTP, until SIGTERM or Ctrl+C.

Every request needs an access key (tasklock keys add). On a terminal, a server without
keys makes a first one of role admin and shows it. The server keeps nothing: any number
of servers can serve one store, and a client can go on at another one.

Others reach the server only with --listen, and then it needs a key in the store, and
TLS: by --tls-cert and --tls-key, whose files may change while it runs, or by a proxy
in front of it, which --behind-proxy confirms.

With --peers, a key of role peer opens the store itself: tasklock --store https://HOST
works on another machine as it does here. Such a key can write every record, like the
password of a database.

Exit codes:
  10  others could reach it without a key or without TLS, or the store is in git or
      behind another server`,
		Example: `  tasklock serve
  tasklock serve --listen 0.0.0.0:7421 --allow-host locks.example.com --tls-cert cert.pem --tls-key key.pem
  tasklock serve --listen :7421 --behind-proxy --prefix /tasklock`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return o.run(ctx, s) }),
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:7421", "serve at this `ADDRESS`")
	f.StringVar(&o.cert, "tls-cert", "", "`FILE` with the certificate, and those that signed it")
	f.StringVar(&o.key, "tls-key", "", "`FILE` with the key of the certificate")
	f.BoolVar(&o.proxied, "behind-proxy", false, "a proxy in front of it ends TLS")
	f.StringVar(&o.prefix, "prefix", "", "the `PATH` below which the proxy has it, like /tasklock")
	f.BoolVar(&o.peers, "peers", false, "also serve the store itself, to keys of role peer")
	f.StringSliceVar(&o.hosts, "allow-host", nil, "accept this host `NAME` besides localhost")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	return cmd
}

func (o *serveOptions) run(ctx context.Context, s *session.Session) error {
	near, err := o.check(s)
	switch {
	case err != nil:
		return err
	case s.Serve == nil && s.Plus != nil:
		return s.Plus()
	case s.Serve == nil:
		return fmt.Errorf("%w: this program has no server", session.ErrIncomplete)
	}
	if err := servable(s); err != nil {
		return err
	}
	st, err := s.Store(ctx, true)
	if err != nil {
		return err
	}
	if err := o.keyed(ctx, s, st, near); err != nil {
		return err
	}
	peers, err := o.store(ctx, s)
	if err != nil {
		return err
	}
	ctx, stop := session.Listen(ctx)
	defer stop()
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	at := o.address(l)
	if err := s.Event("serving", map[string]string{"address": at}, func(p *term.Printer) { p.Line("Serving at %s", at) }); err != nil {
		return err
	}
	return s.Serve(ctx, session.ServeRequest{
		Store: st, Peers: peers, Listener: l, TLSCert: o.file(s, o.cert), TLSKey: o.file(s, o.key), Prefix: o.prefix,
		Hosts: append(slices.Clone(o.hosts), hostOf(o.listen)), Note: func(text string) { s.Note("%s", text) },
	})
}

// servable refuses a store that no server should serve.
func servable(s *session.Session) error {
	_, url, err := s.Where()
	if err != nil {
		return err
	}
	switch driver.Scheme(url) {
	case "git":
		err := fmt.Errorf("%w: each answer from a store in git takes a push or a fetch, too slow for a server", driver.ErrUnsafe)
		return session.WithNext(err, s.CommandLine("migrate", "--to", "sqlite:PATH"))
	case "http", "https":
		return fmt.Errorf("%w: the store is behind another server: name that one to the clients", driver.ErrUnsafe)
	}
	return nil
}

// check refuses what nobody should serve, before anything is opened. near: only this
// machine can reach the address.
func (o *serveOptions) check(s *session.Session) (near bool, err error) {
	host, _, err := net.SplitHostPort(o.listen)
	ip := net.ParseIP(host)
	near = host == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case s.DryRun:
		return near, session.Usagef("serve has no dry run")
	case err != nil:
		return near, session.Usagef("--listen: %v; as in 127.0.0.1:7421", err)
	case o.prefix != "" && (!strings.HasPrefix(o.prefix, "/") || strings.HasSuffix(o.prefix, "/") || strings.ContainsAny(o.prefix, "?#%") || strings.Contains(o.prefix, "//")):
		return near, session.Usagef("--prefix: must be a path like /tasklock, not %q", term.Short(o.prefix, 60))
	case !near && o.cert == "" && !o.proxied:
		err := fmt.Errorf("%w: others can reach %s, and would send their keys in the open: it needs TLS, or a proxy that has it", driver.ErrUnsafe, o.listen)
		return near, session.WithNext(err, s.CommandLine("serve", "--listen", o.listen, "--tls-cert", "FILE", "--tls-key", "FILE"))
	}
	return near, nil
}

// keyed makes sure that there is a key if others can reach the server, and makes the
// first one where only a person sees it: a log would keep it.
func (o *serveOptions) keyed(ctx context.Context, s *session.Session, st *store.Store, near bool) error {
	all, err := access.List(ctx, st)
	if err != nil || slices.ContainsFunc(all.Keys, func(k access.Key) bool { return k.State == access.Valid }) {
		return err
	}
	add := s.CommandLine("keys", "add", "--role", "admin", "--owner", "admin")
	switch {
	case term.IsTerminal(s.Stdin) && term.IsTerminal(s.Stderr) && !s.JSON && !s.Quiet:
		k, err := access.Add(ctx, st, access.AddRequest{Role: access.Admin, Owner: "admin", Name: "made by serve", By: s.Identity().Owner})
		if err == nil {
			s.Note("The first access key, of role admin. Nobody can show it again:\n%s", k.Secret)
		}
		return err
	case !near:
		return session.WithNext(fmt.Errorf("%w: others can reach %s, and the store has no access key yet", driver.ErrUnsafe, o.listen), add)
	}
	s.Note("The store has no access key yet, so nobody can ask. Run: %s", add)
	return nil
}

// store is the store itself, nil if it is not for peers.
func (o *serveOptions) store(ctx context.Context, s *session.Session) (driver.Store, error) {
	if !o.peers {
		return nil, nil
	}
	cfg, url, err := s.Where()
	if err != nil {
		return nil, err
	}
	how := session.Opens(cfg)
	how.Create = true // the first peer may be the first to write
	return s.OpenStore(ctx, url, how)
}

// file is a file of the command line, from any folder.
func (o *serveOptions) file(s *session.Session, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.Dir, name)
}

// address is where clients find the server.
func (o *serveOptions) address(l net.Listener) string {
	scheme := "http"
	if o.cert != "" {
		scheme = "https"
	}
	return scheme + "://" + l.Addr().String() + o.prefix
}

// hostOf is the host of an address.
func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return host
}
