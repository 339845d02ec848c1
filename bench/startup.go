package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// startup compares the command with a Go program that does nothing.
func (b *bench) startup() {
	b.section("Start-up, as a ratio to an empty Go program")
	dir := b.fresh("startup")
	src := filepath.Join(dir, "empty.go")
	check(os.WriteFile(src, []byte("package main\n\nfunc main() {}\n"), 0o600))
	empty := filepath.Join(dir, "empty")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", empty, src)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	check(build.Run())
	// A file as the linker wrote it starts slower than its copy.
	empty, bin := b.copied(empty), b.copied(b.bin)

	store := "sqlite:" + filepath.Join(dir, ".tasklock", "tasklock.db")
	check(exec.Command(bin, "--store", store, "init").Run())
	const rounds = 100
	var bare, version, acquire []time.Duration
	for i := range rounds { // interleaved, so that all see the same machine
		bare = append(bare, b.time(dir, empty))
		version = append(version, b.time(dir, bin, "version"))
		acquire = append(acquire, b.time(dir, bin, "acquire", fmt.Sprint("k", i), "--store", store, "--owner", "bench", "--quiet"))
	}
	base := percentile(bare, 0.5)
	ratio := func(d []time.Duration) float64 { return float64(percentile(d, 0.5)) / float64(base) }
	b.note("empty program", base.String())
	b.row("tasklock version", fmt.Sprintf("%.2f", ratio(version)), "<= 2.2", ratio(version) <= 2.2)
	b.row("tasklock acquire on SQLite, synced", fmt.Sprintf("%.2f (%s)", ratio(acquire), percentile(acquire, 0.5)), "<= 3.7", ratio(acquire) <= 3.7)
}

func (b *bench) time(dir, name string, args ...string) time.Duration {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	start := time.Now()
	check(cmd.Run())
	return time.Since(start)
}

// copied returns a copy of a program that is beside nothing else.
func (b *bench) copied(program string) string {
	data, err := os.ReadFile(program)
	check(err)
	path := filepath.Join(b.fresh("copies"), filepath.Base(program))
	check(os.WriteFile(path, data, 0o700))
	return path
}
