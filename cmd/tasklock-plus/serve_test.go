//go:build unix

package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/tasklock/tasklock/internal/patience"
)

// served is a running tasklock serve.
type served struct {
	*exec.Cmd
	addr   string
	stderr *bytes.Buffer
	client *http.Client
}

// serve starts a server and waits until it serves.
func (p *place) serve(args ...string) *served {
	p.Helper()
	s := &served{Cmd: p.command("server", append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...), stderr: &bytes.Buffer{}, client: &http.Client{}}
	s.Stderr = s.stderr
	out, err := s.StdoutPipe()
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = s.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "Serving at ")
	if err != nil || !ok {
		_ = s.Process.Kill()
		_ = s.Wait()
		p.Fatalf("%q %v: %s", line, err, s.stderr)
	}
	s.addr = addr
	return s
}

type served200 struct {
	State, LeaseID string
	Token          int64
	Position       int
}

// ask sends one request; the status is 0 if there was no answer.
func (s *served) ask(method, path, key, request, body string) (status int, out served200) {
	req, err := http.NewRequest(method, s.addr+path, strings.NewReader(body))
	if err != nil {
		return 0, out
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if request != "" {
		req.Header.Set("Idempotency-Key", request)
	}
	if method == "POST" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, out
	}
	defer res.Body.Close()
	_ = json.NewDecoder(res.Body).Decode(&out)
	return res.StatusCode, out
}

func (p *place) key(args ...string) string {
	p.Helper()
	return strings.TrimSpace(p.tasklock("admin", append([]string{"keys", "add", "--quiet"}, args...)...))
}

const (
	one = "request-number-one"
	two = "request-number-two"
)

// TestServe: a client that knows an address and a key shares the locks of the command.
// A server that gets SIGTERM answers those who wait, and the other one goes on; a key
// that is revoked ends what it has opened.
func TestServe(t *testing.T) {
	p := newPlace(t)
	p.tasklock("test", "init")
	a := p.serve()
	key := p.key("--role", "worker", "--owner", "ci") // made while it runs
	if status, g := a.ask("POST", "/v1/locks/acquire", key, one, `{"keys":["deploy"]}`); status != 200 || g.Token == 0 {
		t.Fatalf("%d %+v", status, g)
	}
	if p.free("deploy") {
		t.Error("the command does not see it")
	}
	b := p.serve()
	waits := make(chan served200, 1)
	ask := func(s *served) {
		_, out := s.ask("POST", "/v1/locks/acquire", key, two, `{"keys":["deploy"],"wait":"50s"}`)
		waits <- out
	}
	go ask(a)
	patience.Until(p, "it waits", func() bool { return strings.Contains(p.tasklock("test", "show", "deploy", "--json"), two) })
	if err := a.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := <-waits; got.State != "queued" || got.Position != 1 {
		t.Errorf("%+v", got)
	}
	if err := a.Wait(); err != nil {
		t.Errorf("%v: %s", err, a.stderr)
	}
	go ask(b)
	if status, _ := b.ask("POST", "/v1/locks/release", key, "", `{"lease":"ci/`+one+`/`+one+`"}`); status != 200 {
		t.Errorf("%d", status)
	}
	if got := <-waits; got.State != "acquired" {
		t.Errorf("%+v", got)
	}

	status := make(chan int, 1)
	go func() {
		s, _ := b.ask("GET", "/v1/locks/wait?key=deploy&timeout=50s", key, "", "")
		status <- s
	}()
	patience.Until(p, "it is served", func() bool { s, _ := b.ask("GET", "/v1/locks", key, "", ""); return s == 200 })
	id := strings.Split(key, "_")[1]
	p.tasklock("admin", "keys", "revoke", id)
	if s := <-status; s != 401 {
		t.Errorf("%d", s)
	}
	if s, _ := b.ask("GET", "/v1/locks", key, "", ""); s != 401 {
		t.Errorf("%d", s)
	}
	if text := a.stderr.String() + b.stderr.String(); strings.Contains(text, key[len(key)-20:]) {
		t.Errorf("the log has the key: %s", text)
	}
}

// TestServeKilled: a lease that one server granted is renewed and released at another,
// after the first was killed.
func TestServeKilled(t *testing.T) {
	p := newPlace(t)
	p.tasklock("test", "init")
	key := p.key("--role", "worker", "--owner", "ci")
	a, b := p.serve(), p.serve()
	_, g := a.ask("POST", "/v1/locks/acquire", key, one, `{"keys":["deploy"]}`)
	if err := a.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = a.Wait()
	if p.free("deploy") {
		t.Error("the lease ended with the server")
	}
	body, _ := json.Marshal(map[string]any{"lease": g.LeaseID, "token": g.Token})
	for _, path := range []string{"renew", "release"} {
		if status, _ := b.ask("POST", "/v1/locks/"+path, key, "", string(body)); status != 200 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// TestServeRefuses: others must not reach a server without keys or without TLS, and a
// store in git has none.
func TestServeRefuses(t *testing.T) {
	p := newPlace(t)
	p.tasklock("test", "init")
	if text := p.exits(10, "serve", "--listen", ":0", "--behind-proxy"); !strings.Contains(text, "Next: tasklock keys add --role admin --owner admin\n") {
		t.Error(text)
	}
	p.tasklock("test", "keys", "add", "--role", "viewer")
	if text := p.exits(10, "serve", "--listen", ":0"); !strings.Contains(text, "Next: tasklock serve --listen :0 --tls-cert FILE --tls-key FILE\n") {
		t.Error(text)
	}
	p.exits(10, "serve", "--listen", "127.0.0.1:0", "--tls-cert", "no.pem", "--tls-key", "no.pem")
	remote := filepath.Join(p.dir, "remote.git")
	if out, err := exec.Command("git", "init", "--bare", "-q", remote).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	p.tasklock("test", "init", "--store", "git:"+remote)
	if text := p.exits(10, "serve", "--listen", "127.0.0.1:0", "--store", "git:"+remote); !strings.Contains(text, "store in git") {
		t.Error(text)
	}
}

// TestFirstKey: only a person at a terminal sees the first key.
func TestFirstKey(t *testing.T) {
	p := newPlace(t)
	p.tasklock("test", "init")
	s := p.serve()
	_ = s.Process.Signal(syscall.SIGTERM)
	_ = s.Wait()
	if text := s.stderr.String(); strings.Contains(text, "tl_") || !strings.Contains(text, "tasklock keys add") || p.tasklock("test", "keys", "list", "--quiet") != "" {
		t.Errorf("a key in a log: %s", text)
	}
	cmd := p.command("test", "serve", "--listen", "127.0.0.1:0")
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	var seen strings.Builder
	in := bufio.NewReader(tty)
	for !strings.Contains(seen.String(), "Serving at") {
		line, err := in.ReadString('\n')
		if seen.WriteString(line); err != nil {
			t.Fatalf("%v: %s", err, seen.String())
		}
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	go func() { _, _ = io.Copy(io.Discard, in) }()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(seen.String(), "tl_") || len(strings.Fields(p.tasklock("test", "keys", "list", "--quiet"))) != 1 {
		t.Errorf("no first key: %s", seen.String())
	}
}

// TestServeTLS: the certificate follows its files, and a bad one replaces nothing.
func TestServeTLS(t *testing.T) {
	p := newPlace(t)
	p.tasklock("test", "init")
	key := p.key("--role", "viewer")
	cert, private := filepath.Join(p.dir, "cert.pem"), filepath.Join(p.dir, "key.pem")
	first := certify(t, cert, private)
	s := p.serve("--tls-cert", "cert.pem", "--tls-key", private)
	if !strings.HasPrefix(s.addr, "https://") {
		t.Fatal(s.addr)
	}
	answers := func(roots *x509.CertPool) bool {
		s.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
		status, _ := s.ask("GET", "/v1/locks", key, "", "")
		return status == 200
	}
	if !answers(first) {
		t.Error("not served")
	}
	second := certify(t, cert, private)
	patience.Until(p, "it has the new certificate", func() bool { return answers(second) })
	if answers(first) {
		t.Error("it still has the old certificate")
	}
	if err := os.WriteFile(cert, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if !answers(second) {
			t.Error("a bad certificate replaced a good one")
		}
		time.Sleep(500 * time.Millisecond) // it looks once a second
	}
}

// certify writes a certificate for this machine, and returns who trusts it.
func certify(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	form := &x509.Certificate{SerialNumber: serial, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{{127, 0, 0, 1}}}
	der, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	roots.AppendCertsFromPEM(text)
	for name, b := range map[string][]byte{cert: text, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return roots
}
