package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/internal/server"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/httpstore"
)

// peers starts a server with a store for peers, which is empty, and returns its URL.
func (w *world) peers(prefix string) (*replica, string) {
	w.Helper()
	d, err := driver.Open(context.Background(), filepath.Join(w.TempDir(), "peers.db"), &driver.OpenOptions{Create: true})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = d.Close() })
	r := w.serve(server.Options{Peers: d, Prefix: prefix})
	return r, r.addr + prefix
}

// as opens the store at a URL with a key.
func (w *world) as(url, key string) (*httpstore.Store, error) {
	w.Helper()
	w.Setenv("TASKLOCK_ACCESS_KEY", key)
	s, err := httpstore.Open(w.Context(), url, nil)
	if err == nil {
		w.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func one(key string) driver.Batch {
	return driver.Batch{Writes: []driver.Write{{Key: key, Value: []byte(`{}`)}}}
}

// The store of a server is a store like any other.
func TestPeersConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Place: func(tb testing.TB) string {
			w := newWorld(tb.(*testing.T))
			t.Setenv("TASKLOCK_ACCESS_KEY", w.key(access.Peer, "").Secret)
			_, url := w.peers("")
			return url
		},
		Open: func(t testing.TB, place string) driver.Store {
			s, err := httpstore.Open(t.Context(), place, nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	})
}

// Only a key of role peer opens the store, and only where the server offers it. Every
// refusal says that nothing was changed.
func TestPeersOnly(t *testing.T) {
	w := newWorld(t)
	_, url := w.peers("/locks")
	peer := w.key(access.Peer, "")
	s, err := w.as(url, peer.Secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), one("task/a")); err != nil {
		t.Fatal(err)
	}
	for _, role := range access.Roles {
		if role == access.Peer {
			continue
		}
		owner := "ci"
		if _, err := w.as(url, w.key(role, owner).Secret); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "role peer") {
			t.Errorf("%s: %v", role, err)
		}
	}
	for _, key := range []string{"", "tl_no_key", peer.Secret + "x"} {
		if _, err := w.as(url, key); !errors.Is(err, driver.ErrDenied) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if _, err := w.as(w.addr, peer.Secret); !errors.As(err, new(*driver.LacksError)) {
		t.Errorf("a server without --peers: %v", err)
	}
	if r, err := w.call("GET", "/v1/locks", peer.Secret, "", nil); err != nil || r.status != 403 {
		t.Errorf("a peer lists locks: %d %v", r.status, err)
	}

	waits := make(chan error, 1)
	go func() { waits <- s.Wait(t.Context(), []driver.Guard{{Key: "task/none"}}) }()
	if _, err := access.Revoke(t.Context(), w.st, access.RevokeRequest{IDs: []string{peer.ID}}); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err == nil {
		t.Error("a wait under a revoked key found that something has changed")
	}
	patience.Until(t, "the key to end", func() bool {
		_, err := s.Commit(t.Context(), one("task/b"))
		return errors.Is(err, driver.ErrDenied)
	})
}

// A server that stops ends the waits of its peers, and carries out what is under way.
func TestPeersOfAServerThatStops(t *testing.T) {
	w := newWorld(t)
	r, url := w.peers("")
	s, err := w.as(url, w.key(access.Peer, "").Secret)
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() { waits <- s.Wait(t.Context(), []driver.Guard{{Key: "task/none"}}) }()
	r.server.Stop()
	if err := <-waits; err == nil || driver.Refusal(err) {
		t.Errorf("a wait on a server that stops: %v", err)
	}
	if _, err := s.Read(t.Context(), driver.Query{}); err != nil {
		t.Error(err)
	}
}

// With TLS the calls of a peer, those that wait too, share one connection.
func TestPeersShareAConnection(t *testing.T) {
	w := newWorld(t)
	lent := httptest.NewTLSServer(nil) // its certificate
	lent.Close()
	pair := lent.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := server.TLS(cert, key, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.Open(t.Context(), filepath.Join(dir, "peers.db"), &driver.OpenOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	r := w.serve(server.Options{Peers: d})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counted := &accepts{Listener: l}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(ctx, tls.NewListener(counted, config)) }()
	s, err := w.as("https://"+l.Addr().String()+"?ca="+cert, w.key(access.Peer, "").Secret)
	if err != nil {
		t.Fatal(err)
	}
	var waits sync.WaitGroup
	for range 20 {
		waits.Go(func() { _ = s.Wait(t.Context(), []driver.Guard{{Key: "task/a"}}) })
	}
	if _, err := s.Commit(t.Context(), one("task/a")); err != nil {
		t.Error(err)
	}
	waits.Wait()
	if n := counted.n.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// accepts counts connections.
type accepts struct {
	net.Listener
	n atomic.Int64
}

func (a *accepts) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err == nil {
		a.n.Add(1)
	}
	return c, err
}
