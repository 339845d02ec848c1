// Package pgtest starts real PostgreSQL servers for tests: a temporary cluster
// with Debian's programs, as an ordinary user, with fsync on.
//
// A server ends with the process that started it, however that ends: a small
// shell waits for the end of a pipe, stops the server and removes its files.
package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/proxy"
)

// A Server is one cluster.
type Server struct {
	Dir  string // of its files, and of its Unix socket
	Port int

	bin  string
	load string // a library that its programs load first
	uid  int    // -1: as we are
	gid  int
	pipe io.WriteCloser // whose end ends the server
	done func() error
}

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Shared is one server for all tests of a process, started by the first that
// asks for it. Tests that stop or disturb a server start their own.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = New() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Start starts a server that ends with the test. Each setting is a line of its
// configuration.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := New(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// New starts a server that ends with Close, or with this process.
func New(settings ...string) (*Server, error) { return Preloaded("", settings...) }

// Preloaded is New, with a library that the server's programs load first
// (LD_PRELOAD).
func Preloaded(library string, settings ...string) (*Server, error) {
	s, err := prepare()
	if err != nil {
		return nil, err
	}
	s.load = library
	out, err := s.run("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := s.configure(settings); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.Up(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prepare makes the folder and the shell that will remove it.
func prepare() (*Server, error) {
	if runtime.GOOS == "windows" {
		return nil, errors.New("no PostgreSQL for tests on Windows")
	}
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, uid: -1}
	if s.Port, err = proxy.Port(); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 { // PostgreSQL does not run as root
		if s.uid, s.gid, err = ordinary(); err != nil {
			return nil, err
		}
	}
	// Short, because of the socket; not in a folder that only root may enter.
	if s.Dir, err = os.MkdirTemp("/tmp", "tasklock-pg-"); err != nil {
		return nil, err
	}
	if s.uid >= 0 {
		if err := os.Chown(s.Dir, s.uid, s.gid); err != nil {
			return nil, err
		}
	}
	return s, s.watch()
}

// watch starts the shell that outlives us.
func (s *Server) watch() error {
	const script = `cat >/dev/null; [ ! -f "$1/data/postmaster.pid" ] || "$2/pg_ctl" -D "$1/data" -m immediate stop >/dev/null 2>&1; rm -rf "$1"`
	cmd := exec.Command("sh", "-c", script, "sh", s.Dir, s.bin)
	cmd.Dir = "/"
	s.as(cmd)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	s.pipe, s.done = pipe, sync.OnceValue(cmd.Wait)
	return cmd.Start()
}

// Close stops the server and removes its files.
func (s *Server) Close() {
	_ = s.pipe.Close()
	_ = s.done()
	_ = os.RemoveAll(s.Dir) // the folder itself is in one that the server's user may not change
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

func (s *Server) configure(settings []string) error {
	lines := append([]string{
		"listen_addresses = '127.0.0.1'",
		"port = " + strconv.Itoa(s.Port),
		"unix_socket_directories = '" + s.Dir + "'",
		"max_connections = 200",
		"shared_buffers = 16MB",
		"log_line_prefix = '%m [%p] %d '",
		"timezone = 'Pacific/Chatham'", // shows a forgotten time zone
	}, settings...)
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, strings.Join(lines, "\n")+"\n")
	return errors.Join(err, f.Close())
}

// Up starts the server that was stopped.
func (s *Server) Up() error {
	out, err := s.run("pg_ctl", "-D", s.data(), "-l", filepath.Join(s.Dir, "log"), "-w", "-t", "60", "start")
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
		return fmt.Errorf("pg_ctl start: %w: %s\n%s", err, out, log)
	}
	return nil
}

// Stop stops the server: "fast" ends its sessions, "immediate" is a crash.
func (s *Server) Stop(mode string) error {
	if out, err := s.run("pg_ctl", "-D", s.data(), "-m", mode, "-w", "-t", "60", "stop"); err != nil {
		return fmt.Errorf("pg_ctl stop: %w: %s", err, out)
	}
	return nil
}

// Restart stops it and starts it again.
func (s *Server) Restart(mode string) error {
	if err := s.Stop(mode); err != nil {
		return err
	}
	return s.Up()
}

// Synchronous is the setting by which a commit waits for a standby, on the
// server and on those that follow it, once they are promoted.
const Synchronous = "synchronous_standby_names = '*'"

// Standby starts a second server that follows this one and can only be read.
func (s *Server) Standby() (*Server, error) {
	b, err := prepare()
	if err != nil {
		return nil, err
	}
	if err := b.Follow(s); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Follow makes a server that is stopped the standby of another. What it held is
// lost.
func (s *Server) Follow(primary *Server) error {
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	out, err := s.run("pg_basebackup", "-h", primary.Dir, "-p", strconv.Itoa(primary.Port), "-U", "postgres", "-D", s.data(), "-R", "-c", "fast", "--no-sync")
	if err == nil {
		err = s.configure(nil)
	}
	if err == nil {
		err = s.Up()
	}
	if err != nil {
		return fmt.Errorf("standby: %w: %s", err, out)
	}
	return nil
}

// Promote makes a standby a server of its own.
func (s *Server) Promote() error {
	if out, err := s.run("pg_ctl", "-D", s.data(), "-w", "-t", "60", "promote"); err != nil {
		return fmt.Errorf("pg_ctl promote: %w: %s", err, out)
	}
	return nil
}

// Addr is its TCP address.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// With is a URL with another server beside the one it names: whichever of them
// takes writes is meant.
func (s *Server) With(other *Server, url string) string {
	return strings.Replace(url, s.Addr(), s.Addr()+","+other.Addr(), 1)
}

// URL names a schema of a database, through TCP.
func (s *Server) URL(database, schema string) string {
	return URL(s.Addr(), "postgres", database, schema)
}

// URL names a schema at any address: that of a proxy, say.
func URL(addr, user, database, schema string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&schema=%s", user, addr, database, schema)
}

var places atomic.Int64

// Place is the URL of a store that does not exist yet, in a schema of its own.
func (s *Server) Place() string {
	return s.URL("postgres", fmt.Sprintf("s%d_%d", os.Getpid(), places.Add(1)))
}

// Query runs SQL as the administrator in psql, and returns what it prints:
// rows as lines, columns with a bar between them.
func (s *Server) Query(database, sql string) (string, error) {
	cmd := s.command("psql", "-h", s.Dir, "-p", strconv.Itoa(s.Port), "-U", "postgres", "-d", database, "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", "-")
	cmd.Stdin = strings.NewReader(sql)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// SQL is Query that ends the test when it fails.
func (s *Server) SQL(t testing.TB, sql string) string {
	t.Helper()
	out, err := s.Query("postgres", sql)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	path := filepath.Join(s.bin, name)
	if _, err := os.Stat(path); err != nil {
		path = name
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=/nonexistent"}
	if s.load != "" {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+s.load)
	}
	s.as(cmd)
	return cmd
}

// run runs one of PostgreSQL's programs. What it starts may keep its output
// open, so that goes to a file.
func (s *Server) run(name string, args ...string) (string, error) {
	out, err := os.CreateTemp("", "pgtest-")
	if err != nil {
		return "", err
	}
	defer func() {
		_ = out.Close()
		_ = os.Remove(out.Name())
	}()
	cmd := s.command(name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	text, _ := os.ReadFile(out.Name())
	return string(bytes.TrimSpace(text)), err
}

// programs finds the folder with initdb and pg_ctl. TASKLOCK_TEST_POSTGRES names
// that of another version.
func programs() (string, error) {
	if dir := os.Getenv("TASKLOCK_TEST_POSTGRES"); dir != "" {
		return dir, nil
	}
	for v := 20; v >= 13; v-- { // where Debian has them
		dir := filepath.Join("/usr/lib/postgresql", strconv.Itoa(v), "bin")
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", errors.New("PostgreSQL is missing; run: scripts/need pg_ctl")
	}
	return filepath.Dir(path), nil
}

// ordinary is a user who is not root.
func ordinary() (uid, gid int, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		return uid, gid, errors.Join(err1, err2)
	}
	return 0, 0, errors.New("no user postgres or nobody to run a server as")
}

// Eventually waits for a condition that must come true.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("%s: not after a minute", what)
		}
	}
}
