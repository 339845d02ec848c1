//go:build linux

package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"
)

const (
	formatOne    = "081a82a388b59eed07144abef7626e00b1155dcd" // the last commit whose tasklock writes records of format 1
	withoutPools = "49d19ad05c3a7d339514b1301775887bee432f7e" // the last one before pools
)

// former is the tasklock command of an old commit, built once for each machine,
// with tasklock-plus beside it. Where the repository is not all here, the test is
// skipped.
func former(t testing.TB, commit string) string {
	t.Helper()
	path, err := buildFormer(commit)
	if err == nil {
		return path
	}
	if why := incomplete(commit); why != "" {
		t.Skipf("SKIPPED: the tasklock of commit %.7s cannot be built: %s", commit, why)
	}
	t.Fatal(err)
	return ""
}

// incomplete says why an old commit may be missing here, if it may.
func incomplete(commit string) string {
	out, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output()
	switch {
	case err != nil:
		return "this is not a git repository; clone it"
	case strings.TrimSpace(string(out)) == "true" && exec.Command("git", "cat-file", "-e", commit+"^{commit}").Run() != nil:
		return "this is a shallow clone; run: git fetch --unshallow"
	}
	return ""
}

func buildFormer(commit string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "tasklock", "test", "former-"+commit[:12])
	path := filepath.Join(dir, "tasklock")
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	gate := flock.New(dir + ".lock")
	if err := gate.Lock(); err != nil {
		return "", err
	}
	defer func() { _ = gate.Unlock() }()
	if _, err := os.Stat(path); err == nil { // built before
		return path, nil
	}
	source, err := os.MkdirTemp("", "tasklock-former-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(source) }()
	sources := fmt.Sprintf("git -C ../.. archive %s | tar -x -C '%s'", commit, source)
	steps := []*exec.Cmd{
		exec.Command("git", "cat-file", "-e", commit+"^{commit}"),
		exec.Command("bash", "-o", "pipefail", "-c", sources),
		exec.Command("go", "build", "-o", dir+".new/", "./cmd/tasklock", "./cmd/tasklock-plus"),
	}
	steps[2].Dir = source
	steps[2].Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	for _, cmd := range steps {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
	}
	return path, os.Rename(dir+".new", dir)
}
