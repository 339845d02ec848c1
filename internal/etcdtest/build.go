package etcdtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/gofrs/flock"
)

// version of the server; it stands in server/go.mod and restore/go.mod too.
const version = "v3.7.3"

// Binary is the path of the server, built if it is not there yet: a minute or
// two the first time, on a machine with two cores.
func Binary() (string, error) { return built("etcd", "server") }

// built is a program that is built from its folder here, once.
func built(name, folder string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "tasklock", "test", name+"-"+version)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	gate := flock.New(path + ".lock")
	if err := gate.Lock(); err != nil {
		return "", err
	}
	defer func() { _ = gate.Unlock() }()
	if _, err := os.Stat(path); err == nil { // somebody else built it
		return path, nil
	}
	_, here, _, _ := runtime.Caller(0)
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path+".new", ".")
	cmd.Dir = filepath.Join(filepath.Dir(here), folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return path, os.Rename(path+".new", path)
}
