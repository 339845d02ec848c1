package etcdstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/etcdtest"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/etcdstore"
)

func TestParse(t *testing.T) {
	t.Setenv("ETCDCTL_PASSWORD", "from-env")
	for _, c := range []struct{ url, endpoints, prefix, user string }{
		{"etcd://a", "http://a:2379", "/tasklock", ""},
		{"etcd://a/", "http://a:2379", "/tasklock", ""},
		{"etcd://a:1,b,[::1]:3/x/y/", "http://a:1 http://b:2379 http://[::1]:3", "/x/y", ""},
		{"etcds://a/x", "https://a:2379", "/x", ""},
		{"etcds://a/x?ca=/f&cert=/c&key=/k", "https://a:2379", "/x", ""},
		{"etcd://u:p@a/x", "http://a:2379", "/x", "u"},
		{"etcd://u%40v:p%2F%3F@a/x", "http://a:2379", "/x", "u@v"},
		{"etcd://u@a", "http://a:2379", "/tasklock", "u"},
		{"etcd://[::1]", "http://[::1]:2379", "/tasklock", ""},
	} {
		p, err := etcdstore.Parse(c.url)
		if err != nil || strings.Join(p.Endpoints, " ") != c.endpoints || p.Prefix != c.prefix || p.User != c.user {
			t.Errorf("%s: %+v, %v", c.url, p, err)
		}
	}
	for _, bad := range []string{
		"", "etcd", "etcd:", "etcd:a", "http://a", "etcd://", "etcd:///x", "etcd://a,,b", "etcd://:2379/x", "etcd://u:@a", "etcd://:secret@a", "etcd://u:secret%zz@a",
		"etcd://u:secret@a?ca=x", "etcds://u:secret@a?cert=x", "etcds://u:secret@a?what=1", "etcds://u:secret@a?%zz", "etcd://u:secret@a/%zz",
		"etcd://u:secret@a/" + strings.Repeat("x", 60), "etcd://u:1/secret@a/x", "etcds://u:1?secret@a/x", "etcd://u:secret/x@a", "etcd://a:port",
	} {
		_, err := etcdstore.Parse(bad)
		if !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// guarded is a cluster with a user who may use one prefix.
func guarded(t *testing.T, prefix string) *etcdtest.Cluster {
	t.Helper()
	c := one(t, "--auth-token-ttl", "1")
	must(t, c.Guard(prefix))
	return c
}

// A user without access gets that answer: with a wrong password, none, or a prefix
// that is not theirs. Nothing that is said holds the password. A token that
// has run out is replaced.
func TestAccess(t *testing.T) {
	t.Parallel() // it mostly waits
	prefix := newPrefix()
	c := guarded(t, prefix)
	as := func(user, prefix string) string { return strings.Replace(c.URL(prefix), "etcd://", "etcd://"+user, 1) }
	for _, c := range []struct{ url, help string }{
		{as("worker:wrong@", prefix), "ETCDCTL_PASSWORD"},
		{as("nobody:wrong@", prefix), "etcdctl user passwd nobody"},
		{as("", prefix), "name a user: etcd://USER@"},
		{as("worker:s3cret@", prefix+"x"), "etcdctl role grant-permission ROLE --prefix=true readwrite /" + prefix + "x/"},
	} {
		_, err := etcdstore.Open(t.Context(), c.url, &etcdstore.Options{Create: true})
		if !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "wrong") || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), c.help) {
			t.Errorf("%s: %v", c.url, err)
		}
	}
	s := open(t, as("worker:s3cret@", prefix))
	w := put("lease/a")
	w.TTL = time.Minute
	_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{w, put("lock/a")}})
	must(t, err)
	time.Sleep(2500 * time.Millisecond) // the token ends in one
	_, err = s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "lease/a"}, put("lock/a")}})
	must(t, err)
	r, err := etcdstore.Inspect(t.Context(), as("worker:s3cret@", prefix))
	must(t, err)
	if len(r.Problems) > 0 || !strings.Contains(r.Facts, ", 1 records") {
		t.Errorf("doctor of a user who may only use the prefix: %+v", r)
	}
}

// TLS: the server must be who we trust, and we who it trusts.
func TestTLS(t *testing.T) {
	c := one(t)
	dir := t.TempDir()
	ca := newAuthority(t, dir, "ca")
	newAuthority(t, dir, "other")
	ca.sign(t, dir, "server")
	ca.sign(t, dir, "client")
	addr := terminate(t, c.Members[0].Addr, dir)
	file := func(name string) string { return url.QueryEscape(filepath.Join(dir, name)) }

	base := "etcds://" + addr + "/" + newPrefix()
	mutual := base + "?ca=" + file("ca.pem") + "&cert=" + file("client.pem") + "&key=" + file("client.key")
	_, err := open(t, mutual).Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/a")}})
	must(t, err)
	for name, u := range map[string]string{
		"system authorities":   base,
		"another authority":    strings.Replace(mutual, "ca.pem", "other.pem", 1),
		"no certificate":       base + "?ca=" + file("ca.pem"),
		"no such file":         base + "?ca=" + file("missing.pem"),
		"a key for a ca":       base + "?ca=" + file("client.key"),
		"plain to a TLS port":  strings.Replace(base, "etcds:", "etcd:", 1),
		"a key for other cert": strings.Replace(mutual, "client.key", "server.key", 1),
	} {
		s, err := etcdstore.Open(t.Context(), u, &etcdstore.Options{Timeout: time.Second})
		if err == nil {
			t.Errorf("%s: let in", name)
			_ = s.Close()
		}
		t.Logf("%s: %v", name, err)
	}
}

// terminate takes TLS off the connections to a server. Clients need a
// certificate.
func terminate(t *testing.T, target, dir string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key"))
	must(t, err)
	pool := x509.NewCertPool()
	b, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	must(t, err)
	pool.AppendCertsFromPEM(b)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go pipe(in, target)
		}
	}()
	return l.Addr().String()
}

func pipe(in net.Conn, target string) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir, name string) authority {
	t.Helper()
	a := authority{cert: template(name)}
	a.cert.IsCA, a.cert.KeyUsage = true, x509.KeyUsageCertSign
	a.key = write(t, dir, name, a.cert, a)
	return a
}

func (a authority) sign(t *testing.T, dir, name string) { write(t, dir, name, template(name), a) }

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// write makes a key and a certificate for it. An authority without a key yet
// signs itself.
func write(t *testing.T, dir, name string, cert *x509.Certificate, by authority) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	signer := by.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, by.cert, key.Public(), signer)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return key
}
