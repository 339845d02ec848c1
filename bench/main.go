// Command bench prints how fast tasklock is beside the raw limit and beside
// other ways to do the same, all measured in one run on one machine. Only the
// ratios mean something; none of them is a test.
//
// Usage: bench DIR [SECTION…], where DIR holds the tasklock binary.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// length is half of what each way gets.
const length = 2 * time.Second

func main() {
	if len(os.Args) > 2 && os.Args[1] == "worker" {
		worker(os.Args[2], os.Args[3:])
		return
	}
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: bench DIR-OF-TASKLOCK [startup|sqlite|processes|wakeup|holders|pools|scale|tasks|claims|scheduler|jobs|hooks|files|git|postgres|etcd…]")
		os.Exit(2)
	}
	bin, err := filepath.Abs(filepath.Join(os.Args[1], "tasklock"))
	check(err)
	dir, err := os.MkdirTemp("", "tasklock-bench-")
	check(err)
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, bin: bin}
	for _, s := range []struct {
		name string
		run  func()
	}{
		{"startup", b.startup},
		{"sqlite", b.sqlite},
		{"processes", b.processes},
		{"wakeup", b.wakeup},
		{"holders", b.holders},
		{"pools", b.pools},
		{"scale", b.scale},
		{"tasks", b.tasks},
		{"claims", b.inProgress},
		{"scheduler", b.schedule},
		{"jobs", b.manyJobs},
		{"hooks", b.hooks},
		{"files", b.files},
		{"git", b.git},
		{"postgres", b.postgres},
		{"etcd", b.etcd},
	} {
		if len(os.Args) == 2 || slices.Contains(os.Args[2:], s.name) {
			s.run()
		}
	}
	fmt.Printf("\n%d of %d aims met\n", b.met, b.rows)
}

// bench collects rows.
type bench struct {
	dir, bin  string
	rows, met int
}

func (b *bench) section(name string) { fmt.Printf("\n%s\n", name) }

// row prints one comparison. aim is what was aimed for, ok whether it is met.
func (b *bench) row(what, value, aim string, ok bool) {
	b.rows++
	mark := "missed"
	if ok {
		b.met++
		mark = "met"
	}
	fmt.Printf("  %-48s %-22s %-6s  %s\n", what, aim, mark, value)
}

// note prints a figure without an aim.
func (b *bench) note(what, value string) { fmt.Printf("  %-79s %s\n", what, value) }

func (b *bench) fresh(name string) string {
	dir := filepath.Join(b.dir, name)
	check(os.MkdirAll(dir, 0o700))
	return dir
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", strings.TrimSpace(err.Error()))
		os.Exit(1)
	}
}

// rate calls fn for a while and returns calls a second.
func rate(fn func()) float64 {
	start, n := time.Now(), 0
	for time.Since(start) < length {
		fn()
		n++
	}
	return float64(n) / time.Since(start).Seconds()
}

func percentile(d []time.Duration, p float64) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, int(float64(len(d))*p))]
}
