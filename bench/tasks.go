package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// tasks measures the task list and the runners that work through it.
func (b *bench) tasks() {
	b.section("Tasks, SQLite")
	dir := b.fresh("tasks")
	path := filepath.Join(dir, "tasklock.db")
	st := store.New(open(path))
	command := func(args ...string) time.Duration {
		var took []time.Duration
		for range 20 {
			took = append(took, b.time(dir, b.bin, append(args, "--store", "sqlite:"+path, "--owner", "bench", "--quiet")...))
		}
		return percentile(took, 0.5)
	}
	var nexts, lists []time.Duration
	for _, more := range []int{100, 900, 9000} {
		fill(st, more)
		nexts, lists = append(nexts, command("next", "--claim")), append(lists, command("tasks", "list"))
	}
	next, list := nexts[2], lists[2]
	b.row("next --claim of 10,000 open tasks, command", next.Round(time.Millisecond/10).String(), "<= 50ms", next <= 50*time.Millisecond)
	b.growth("next --claim of 100, 1,000, 10,000", nexts)
	b.row("tasks list of them, command", list.Round(time.Millisecond).String(), "<= 300ms", list <= 300*time.Millisecond)
	b.growth("tasks list of 100, 1,000, 10,000", lists)
	b.racers(st, path)
	b.runners()
}

func fill(st *store.Store, n int) {
	for done := 0; done < n; {
		var list []task.New
		for range min(n-done, 500) {
			list = append(list, task.New{Title: fmt.Sprint("task ", done)})
			done++
		}
		_, err := task.Add(ctx, st, task.AddRequest{Tasks: list, By: "bench"})
		check(err)
	}
}

// racers lets workers in processes of their own claim and complete as fast as they
// can: more workers must not be slower than one.
func (b *bench) racers(st *store.Store, path string) {
	fill(st, 40_000) // so that they do not run out
	var ways []way
	for _, n := range []int{1, 8, 16} {
		w, end := workers(fmt.Sprintf("claims and completions, %d workers", n), n, "claims", path)
		defer end()
		ways = append(ways, w)
	}
	rates := inTurns(ways...)
	b.note(rates[0].name, rates[0].String())
	b.atLeast(rates[1], rates[0], 1)
	b.atLeast(rates[2], rates[0], 0.8)
}

// claims is how many tasks workers claim and complete in a second.
func (b *bench) claims(path string, n int) float64 {
	w, end := workers("", n, "claims", path)
	defer end()
	return float64(len(w.window(2*length))) / (2 * length).Seconds()
}

// claimWorker is one of these processes.
func claimWorker(path, owner string) {
	st := store.New(open(path))
	serveWindows(func() {
		got, err := task.Next(ctx, st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: owner}})
		check(err)
		_, err = task.ChangeStatus(ctx, st, task.StatusRequest{Verb: task.Complete, Tasks: []string{got.Task.ID}, Owner: owner, Token: got.Grant.Token})
		check(err)
	})
}

// runners compares eight runners with eight loops that only start the command.
func (b *bench) runners() {
	const tasks, count = 2000, 8
	b.section(fmt.Sprintf("%d runners, %d tasks, command: true", count, tasks))
	dir := b.fresh("runners")
	path := filepath.Join(dir, "tasklock.db")
	st := store.New(open(path))
	fill(st, tasks)
	start := time.Now()
	atOnce(count, func(i int) {
		cmd := exec.Command(b.bin, "runner", "start", "--id", fmt.Sprint("r", i), "--store", "sqlite:"+path, "--owner", "bench", "--quiet", "--no-stdin", "--", "true")
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		check(cmd.Run())
	})
	took := time.Since(start)
	h, err := lease.History(ctx, st, lease.HistoryRequest{})
	check(err)
	done, claimed := map[string]int{}, map[string]int{}
	for _, e := range h.Events {
		switch e.Event {
		case "task complete":
			done[e.Keys[0]]++
		case "task claim":
			claimed[e.Keys[0]]++
		}
	}
	once := 0
	for id, n := range done {
		if n == 1 && claimed[id] == 1 {
			once++
		}
	}
	b.row("tasks claimed and completed exactly once", fmt.Sprint(once), fmt.Sprint(tasks), once == tasks && len(done) == tasks)
	start = time.Now()
	atOnce(count, func(int) {
		for range tasks / count {
			check(exec.Command("true").Run())
		}
	})
	bare := time.Since(start)
	b.note("time for a task, and for a bare start", fmt.Sprintf("%s, %s", (took/tasks).Round(time.Microsecond), (bare/tasks).Round(time.Microsecond)))
	b.note("ratio", fmt.Sprintf("%.1f", float64(took)/float64(bare)))
}
