//go:build linux

package torture

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/fault/plant"
	"github.com/tasklock/tasklock/internal/torture/long"
)

func TestMain(m *testing.M) {
	Serve(openURL)
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// tempDir is a folder for what processes write. One that was killed, or that ends
// with another, may still write when the test is over: that is not a failure.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tasklock-torture-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for deadline := time.Now().Add(20 * time.Second); os.RemoveAll(dir) != nil && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
		}
	})
	return dir
}

// full reports whether the long forms were asked for.
func full() bool { return long.Asked() }

// built keeps what is built once for all tests of a run.
var built struct {
	sync.Mutex
	dir string
	err map[string]error
}

// build compiles a program with pauses and bugs, once.
func build(t testing.TB, name string, args ...string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "tasklock-torture-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir, built.err = dir, map[string]error{}
	}
	path := filepath.Join(built.dir, name)
	err, ok := built.err[name]
	if !ok {
		err = plant.Build(path, args...)
		built.err[name] = err
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// workerProgram is this test binary with pauses and bugs.
func workerProgram(t testing.TB) string {
	t.Helper()
	return build(t, "torture.test", "test", "-c", ".")
}

// command is tasklock with pauses and bugs.
func command(t testing.TB) string {
	t.Helper()
	return build(t, "tasklock", "build", "../../cmd/tasklock")
}
