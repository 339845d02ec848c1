package pgtest_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/tasklock/tasklock/internal/pgtest"
)

// A server does not outlive the process that started it, even if that is
// killed.
func TestEndsWithItsProcess(t *testing.T) {
	if os.Getenv("PGTEST_CHILD") != "" {
		s, err := pgtest.New()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString(s.Dir + "\n")
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestEndsWithItsProcess$")
	cmd.Env = append(os.Environ(), "PGTEST_CHILD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 200)
	n, _ := out.Read(buf)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	dir := string(buf[:n-1])
	pgtest.Eventually(t, dir+" is gone", func() bool {
		_, err := os.Stat(dir + "/data")
		return err != nil
	})
}

func TestRestart(t *testing.T) {
	s := pgtest.Start(t)
	s.SQL(t, "CREATE TABLE x (n int); INSERT INTO x VALUES (7)")
	if err := s.Restart("immediate"); err != nil {
		t.Fatal(err)
	}
	if got := s.SQL(t, "SELECT n FROM x; SHOW fsync"); got != "7\non" {
		t.Fatalf("after a crash: %q", got)
	}
}
