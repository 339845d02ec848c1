package sqlitestore_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
)

// A page in the middle of a kind costs a new process as many reads of the file
// among ten times as many records.
func TestReadsOfAPage(t *testing.T) {
	few, many := readsOf(t, "page", 2000), readsOf(t, "page", 20_000)
	t.Logf("a page takes %d reads of the file among 2,000 records, %d among 20,000", few, many)
	if many > few+10 { // the tree is a little higher
		t.Errorf("a page takes %d reads of the file among 2,000 records, %d among 20,000", few, many)
	}
	if all := readsOf(t, "read", 20_000); all < 2*many {
		t.Errorf("everything takes %d reads: the test has shown nothing", all)
	}
}

// readsOf counts how often a process that does a job reads the file of a store with
// so many records.
func readsOf(t *testing.T, job string, records int) int {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatal("strace is missing; run: apt-get install strace")
	}
	path, trace := filepath.Join(t.TempDir(), "tasklock.db"), filepath.Join(t.TempDir(), "trace")
	s := open(t, path)
	for from := 0; from < records; from += 1000 {
		var b driver.Batch
		for i := from; i < from+1000; i++ {
			b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("lock/%06d", i), Value: []byte(`{"pad":"` + strings.Repeat("x", 200) + `"}`)})
		}
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil { // the last one moves the log into the file
		t.Fatal(err)
	}
	out := run(t, job, path, func(cmd *exec.Cmd) {
		strace, _ := exec.LookPath("strace")
		cmd.Args, cmd.Path = []string{"strace", "-f", "-qq", "-e", "trace=pread64", "-o", trace, cmd.Path}, strace
	})
	if want := map[string]string{"page": "read 50", "read": fmt.Sprintf("read %d", records)}[job]; out != want {
		t.Fatalf("%s: %s, want %s", job, out, want)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "pread64(")
}
