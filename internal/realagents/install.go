package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// cache is where the harnesses and the folders of their runs are.
func cache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "tasklock", "harnesses")
	return dir, os.MkdirAll(dir, 0o700)
}

// install puts a harness into the cache, once, and returns the folder of its
// programs.
func install(ctx context.Context, h harness) (string, error) {
	base, err := cache()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, h.name+"-"+h.version)
	bin := filepath.Join(dir, "node_modules", ".bin")
	gate := flock.New(dir + ".lock")
	if err := gate.Lock(); err != nil {
		return "", err
	}
	defer func() { _ = gate.Unlock() }()
	done := filepath.Join(dir, "installed")
	want := strings.Join(h.packages(), "\n")
	if is, err := os.ReadFile(done); err == nil && string(is) == want {
		return bin, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{\"private\": true}\n"), 0o600); err != nil {
		return "", err
	}
	fmt.Printf("   installing %s\n", strings.Join(h.packages(), " "))
	npm := exec.CommandContext(ctx, "npm", append([]string{"install", "--no-audit", "--no-fund", "--no-save", "--loglevel=error"}, h.packages()...)...)
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install: %w\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(bin, h.program)); err != nil {
		return "", err
	}
	return bin, os.WriteFile(done, []byte(want), 0o600)
}
