//go:build linux

package torture

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/door"
	"github.com/tasklock/tasklock/internal/proxy"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/httpstore"
)

// overHTTP is SQLite behind tasklock serve.
var overHTTP = backend{
	name: "http", scheme: "http",
	open:   openHTTP,
	create: func(t testing.TB, dir string) string { return startServer(t, dir).url() },
	damage: problems,
	race:   raceHTTP,
	ttl:    2 * time.Second,
	tasks:  3,
	brief:  brief{modes: []Mode{Library}},
}

func raceHTTP(c *Config) {
	if !full() {
		c.Rounds = min(c.Rounds, 12)
	}
}

// openHTTP opens a store; who comes while the server is away comes again.
func openHTTP(ctx context.Context, url string) (driver.Store, error) {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		s, err := httpstore.Open(ctx, url, nil)
		switch {
		case err == nil:
			return s, nil
		case driver.Refusal(err) || time.Since(began) > time.Minute:
			return nil, err
		}
	}
}

// A server can be killed and started again, and has a bad network before it.
type server struct {
	addr, store, key, program string
	cmd                       *exec.Cmd
	net                       *proxy.Proxy
}

// startServer starts a server over a new store in that folder.
func startServer(t testing.TB, dir string) *server {
	t.Helper()
	port, err := proxy.Port()
	must(t, err)
	s := &server{
		addr: fmt.Sprintf("127.0.0.1:%d", port), store: "sqlite:" + filepath.Join(dir, "tasklock.db"), key: filepath.Join(dir, "key"),
		program: build(t, "tasklock-plus", "build", "../../cmd/tasklock-plus"), // beside tasklock, which becomes it for this store
	}
	add := exec.Command(s.program, "--store", s.store, "--owner", "torture", "keys", "add", "--role", "peer", "--quiet")
	add.Env = cleanEnv()
	key, err := add.Output()
	must(t, err)
	must(t, os.WriteFile(s.key, key, 0o600))
	s.net, err = proxy.New(s.addr)
	must(t, err)
	t.Cleanup(s.net.Close)
	must(t, s.start())
	t.Cleanup(s.kill)
	return s
}

func (s *server) url() string { return "http://" + s.net.Addr() + "?keyfile=" + s.key }

// start starts it and waits until it listens.
func (s *server) start() error {
	s.cmd = exec.Command(s.program, "--store", s.store, "--quiet", "serve", "--peers", "--listen", s.addr)
	s.cmd.Env = cleanEnv()
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", s.addr); err == nil {
			return c.Close()
		}
	}
	return fmt.Errorf("the server does not listen on %s", s.addr)
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// TestServedRestarts: the server is killed and started again, and its replies are
// cut, again and again under sixteen workers who are killed and stopped themselves.
// One winner, tokens grow, every waiter is served.
func TestServedRestarts(t *testing.T) {
	for _, mode := range overHTTP.modes() {
		t.Run(string(mode), func(t *testing.T) { servedRestarts(t, mode) })
	}
}

func servedRestarts(t *testing.T, mode Mode) {
	var s *server
	b := overHTTP
	b.create = func(t testing.TB, dir string) string {
		s = startServer(t, dir)
		return s.url()
	}
	b.race = func(c *Config) { c.withOutages(10) }
	c := b.run(t, mode)
	c.Seed = 7
	kills, cuts := 0, 0
	c.Disturb, c.DisturbEvery = func() error {
		switch cuts++; cuts % 4 {
		case 0:
			s.net.Cut()
		case 1:
			kills++
			s.kill()
			return s.start()
		default:
			s.net.CutAnswer(func(b []byte) bool { return bytes.Contains(b, []byte(door.CommitPath)) }, nil)
		}
		return nil
	}, 250*time.Millisecond
	clean(t, c)
	if kills < 2 {
		t.Errorf("the server was killed %d times: the run has shown nothing", kills)
	}
	t.Logf("the server was killed %d times, the network cut %d times", kills, cuts-kills)
}
