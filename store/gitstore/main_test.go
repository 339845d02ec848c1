package gitstore_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/gitstore"
)

func TestMain(m *testing.M) {
	drivertest.Main(m, func(place string) (driver.Store, error) { return openPlace(place) })
}

// pollOften is for tests that wait for somebody else's commit.
const pollOften = 50 * time.Millisecond

func openPlace(place string) (driver.Store, error) {
	s, err := gitstore.Open(context.Background(), place, &gitstore.Options{
		Create: true, Poll: pollOften, Cache: filepath.Join(filepath.Dir(place), "cache"),
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newRemote makes an empty bare repository.
func newRemote(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "remote.git")
	git(t, "", "init", "--quiet", "--bare", dir)
	return dir
}

// open opens a remote with a cache of its own: another machine.
func open(t testing.TB, remote string, change ...func(*gitstore.Options)) *gitstore.Store {
	t.Helper()
	s, err := tryOpen(t, remote, change...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tryOpen(t testing.TB, remote string, change ...func(*gitstore.Options)) (*gitstore.Store, error) {
	t.Helper()
	o := &gitstore.Options{Create: true, Poll: pollOften, Cache: filepath.Join(t.TempDir(), "cache")}
	for _, c := range change {
		c(o)
	}
	s, err := gitstore.Open(t.Context(), remote, o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, nil
}

// git runs git as a person would, in dir.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return gitInput(t, dir, "", args...)
}

func gitInput(t testing.TB, dir, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	cmd.Stdin = strings.NewReader(input)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

func put(key, value string) driver.Batch {
	return driver.Batch{Writes: []driver.Write{{Key: key, Value: []byte(value)}}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func commit(t testing.TB, s driver.Store, b driver.Batch) int64 {
	t.Helper()
	rev, err := s.Commit(t.Context(), b)
	must(t, err)
	return rev
}

// get returns the record of a key, or the zero Record.
func get(t testing.TB, s driver.Store, key string) driver.Record {
	t.Helper()
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{key}})
	must(t, err)
	if len(snap.Records) == 0 {
		return driver.Record{}
	}
	return snap.Records[0]
}
