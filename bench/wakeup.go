package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// wakeup measures from the release in one process to the grant in another.
func (b *bench) wakeup() {
	b.section("Wake-up of a waiter in another process, SQLite")
	path := filepath.Join(b.fresh("wakeup"), "tasklock.db")
	st := store.New(open(path))
	w := startWaiter(st, "wait", path)
	p50, p99 := w.delays()
	b.row("release to grant, both synced: p50", p50.String(), "<= 1ms", p50 <= time.Millisecond)
	b.row("p99", p99.String(), "<= 10ms", p99 <= 10*time.Millisecond)

	w.block()
	before := cpu(w.cmd.Process.Pid)
	const idle = 10 * time.Second
	time.Sleep(idle)
	used := (cpu(w.cmd.Process.Pid) - before) / time.Duration(idle/time.Second)
	b.row("idle waiter, CPU a second", used.String(), "<= 200µs", used <= 200*time.Microsecond)
	w.end()
}

// A waiter is a process that waits for the key on request.
type waiter struct {
	st    *store.Store
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Scanner
}

func startWaiter(st *store.Store, kind, place string) *waiter {
	self, err := os.Executable()
	check(err)
	cmd := exec.Command(self, "worker", kind, place)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(err)
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	return &waiter{st: st, cmd: cmd, in: in, lines: bufio.NewScanner(out)}
}

// block takes the key and returns when the waiter waits for it.
func (w *waiter) block() lease.Grant {
	g, err := lease.Acquire(ctx, w.st, lease.AcquireRequest{Keys: []string{"key"}, Owner: "holder", Wait: time.Minute})
	check(err)
	fmt.Fprintln(w.in, "wait")
	queued(w.st)
	return g
}

// delays measures from the release here to the grant there.
func (w *waiter) delays() (p50, p99 time.Duration) {
	var delays []time.Duration
	for range 200 {
		g := w.block()
		began := monotonic()
		_, err := lease.Release(ctx, w.st, lease.ReleaseRequest{Owner: "holder", Lease: g.LeaseID})
		check(err)
		w.lines.Scan()
		granted, err := strconv.ParseInt(w.lines.Text(), 10, 64)
		check(err)
		delays = append(delays, time.Duration(granted)-began)
	}
	return percentile(delays, 0.5), percentile(delays, 0.99)
}

func (w *waiter) end() {
	check(w.cmd.Process.Kill())
	_ = w.cmd.Wait()
}

// queued returns when someone waits for the key.
func queued(st *store.Store) {
	for {
		s, err := lease.Show(ctx, st, "key")
		check(err)
		if len(s.Waiters) > 0 {
			time.Sleep(5 * time.Millisecond) // until it sleeps
			return
		}
	}
}

func waitWorker(path string) { serveWaits(store.New(open(path))) }

// serveWaits waits for the key on request, and says when it got it.
func serveWaits(st *store.Store) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		g, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{"key"}, Owner: "waiter", Wait: time.Minute})
		check(err)
		fmt.Println(int64(monotonic()))
		_, err = lease.Release(ctx, st, lease.ReleaseRequest{Owner: "waiter", Lease: g.LeaseID})
		check(err)
	}
}

// monotonic is a clock that two processes share.
func monotonic() time.Duration {
	var t unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &t))
	return time.Duration(t.Nano())
}

// cpu is the time that all threads of a process have run, in nanoseconds of
// the scheduler: its ticks are too coarse for this.
func cpu(pid int) (sum time.Duration) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	check(err)
	if len(tasks) == 0 {
		check(syscall.ENOENT)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that ended
		}
		n, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		check(err)
		sum += time.Duration(n)
	}
	return sum
}
