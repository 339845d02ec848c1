package pgtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/tasklock/tasklock/internal/proxy"
)

// Pooler starts PgBouncer in front of the server, such that every transaction
// may get another session, and returns its address. It ends with the test.
func (s *Server) Pooler(t testing.TB) (addr string) {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path = "/usr/sbin/pgbouncer"
	}
	port, err := proxy.Port()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "tasklock-pgbouncer-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ini"), fmt.Appendf(nil, `[databases]
postgres = host=127.0.0.1 port=%d dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
`, s.Port, port), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	// As with the server itself, a shell sees to its end.
	cmd := exec.Command("sh", "-c", `"$1" "$2" & cat >/dev/null; kill $!; wait`, "sh", path, filepath.Join(dir, "ini"))
	s.as(cmd)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = pipe.Close()
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("pgbouncer (run scripts/need pgbouncer if it is missing): %s", text[max(0, len(text)-2000):])
		}
		_ = log.Close()
		_ = os.RemoveAll(dir)
	})
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	Eventually(t, "the pooler answers", func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	return addr
}
