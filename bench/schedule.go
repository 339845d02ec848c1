package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/schedule"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// schedule measures what a pod costs that has nothing to do, and how late runs
// start.
func (b *bench) schedule() {
	b.section("Scheduler, SQLite: a pod with 1,000 jobs that do not fire")
	path := filepath.Join(b.fresh("schedule-idle"), "tasklock.db")
	d := open(path)
	addJobs(store.New(d), 1000, "@yearly", []string{"true"})
	pod, _ := b.pod(path)
	time.Sleep(2 * time.Second) // its first look
	const idle = 10 * time.Second
	before := cpu(pod.Process.Pid)
	time.Sleep(idle)
	used := (cpu(pod.Process.Pid) - before) / time.Duration(idle/time.Second)
	b.row("CPU of the process each second", used.String(), "<= 1ms", used <= time.Millisecond)
	stopPod(pod)

	counted := &counter{Store: d}
	pctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- schedule.New(store.New(counted)).Run(pctx, &schedule.Options{Commands: &schedule.Commands{}})
	}()
	time.Sleep(time.Second)
	counted.calls.Store(0)
	time.Sleep(idle)
	calls := float64(counted.calls.Load()) / idle.Seconds()
	stop()
	check(<-ended)
	b.row("calls to the store each second", fmt.Sprintf("%.2f", calls), "<= 0.1", calls <= 0.1)

	b.section("Scheduler, SQLite: from the fire time to the start of the command")
	delays := b.delays(1)
	p50, p99 := percentile(delays, 0.5), percentile(delays, 0.99)
	b.row("one job each second: p50", p50.String(), "<= 25ms", p50 <= 25*time.Millisecond)
	b.row("p99", p99.String(), "<= 250ms", p99 <= 250*time.Millisecond)
	delays = b.delays(20) // what bounds these is how fast the machine starts processes
	b.note("20 jobs at the same second, one pod", fmt.Sprintf("p50 %s, p99 %s", percentile(delays, 0.5), percentile(delays, 0.99)))
}

// counter counts what is asked of a store, apart from waiting.
type counter struct {
	driver.Store
	calls atomic.Int64
}

func (c *counter) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	c.calls.Add(1)
	return c.Store.Read(ctx, q)
}

func (c *counter) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	c.calls.Add(1)
	return c.Store.Commit(ctx, b)
}

func addJobs(st *store.Store, n int, cron string, command []string) {
	var jobs []schedule.Job
	for i := range n {
		jobs = append(jobs, schedule.Job{Name: fmt.Sprintf("j%d", i), Cron: cron, Command: command})
	}
	_, err := schedule.Apply(ctx, st, schedule.ApplyRequest{Jobs: jobs, By: "bench"})
	check(err)
}

// pod starts the real scheduler.
func (b *bench) pod(path string) (*exec.Cmd, *bufio.Scanner) {
	cmd := exec.Command(b.bin, "--store", "sqlite:"+path, "--json", "scheduler")
	cmd.Dir = b.dir
	log, err := cmd.StderrPipe()
	check(err)
	check(cmd.Start())
	return cmd, bufio.NewScanner(log)
}

func stopPod(cmd *exec.Cmd) {
	check(cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
}

// delays runs jobs each second and returns how late each of them began, by its
// own clock.
func (b *bench) delays(jobs int) (delays []time.Duration) {
	dir := b.fresh(fmt.Sprintf("schedule-%d", jobs))
	path, out := filepath.Join(dir, "tasklock.db"), filepath.Join(dir, "began")
	addJobs(store.New(open(path)), jobs, "* * * * * *", []string{"sh", "-c", `date "+$TASKLOCK_FIRE_TIME %s%N" >> "$0"`, out})
	pod, log := b.pod(path)
	go func() {
		for log.Scan() {
		}
	}()
	time.Sleep(12 * time.Second)
	stopPod(pod)
	f, err := os.Open(out)
	check(err)
	defer f.Close()
	var first time.Time
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var fire string
		var began int64
		_, err := fmt.Sscan(lines.Text(), &fire, &began)
		check(err)
		at, err := time.Parse(time.RFC3339Nano, fire)
		check(err)
		if first.IsZero() {
			first = at
		}
		if at.Sub(first) >= 2*time.Second { // the first ones start their guardians
			delays = append(delays, time.Unix(0, began).Sub(at))
		}
	}
	return delays
}
