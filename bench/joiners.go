package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// joiningApart measures how processes join one queue at once, each with a store of
// its own: nothing but the queue's record orders them.
func (b *bench) joiningApart(most int) {
	var took []time.Duration
	failed := 0
	for _, n := range []int{most / 100, most / 10, most} {
		path := filepath.Join(b.fresh(fmt.Sprint("joining-apart-", n)), "tasklock.db")
		st := store.New(open(path))
		_, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{"key"}, Owner: "holder"})
		check(err)
		var d time.Duration
		d, failed = joinFrom(path, n)
		took = append(took, d)
		check(st.Close())
	}
	b.row(fmt.Sprintf("SQLite: %d processes join one queue", most), fmt.Sprintf("%v, %d fail", took[2].Round(time.Millisecond), failed), "none fails", failed == 0)
	b.growth(fmt.Sprintf("SQLite: %d, %d, %d processes join", most/100, most/10, most), took)
}

// joinFrom starts processes that join when all of them have opened the store. It
// returns how long that took, and how many did not.
func joinFrom(path string, n int) (took time.Duration, failed int) {
	self, err := os.Executable()
	check(err)
	var ins []io.Closer
	var cmds []*exec.Cmd
	var outs []*bufio.Scanner
	for i := range n {
		cmd := exec.Command(self, "worker", "join", path, fmt.Sprint("waiter-", i))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		check(err)
		out, err := cmd.StdoutPipe()
		check(err)
		check(cmd.Start())
		cmds, ins, outs = append(cmds, cmd), append(ins, in), append(outs, bufio.NewScanner(out))
	}
	for _, out := range outs {
		out.Scan() // it has opened the store
	}
	start := time.Now()
	for _, in := range ins {
		check(in.Close())
	}
	for _, out := range outs {
		if !out.Scan() {
			failed++
		}
	}
	took = time.Since(start)
	for _, cmd := range cmds {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return took, failed
}

// joinWorker is one of these processes. It begins at the end of its input.
func joinWorker(path, owner string) {
	st := store.New(open(path))
	fmt.Println("open")
	_, _ = io.Copy(io.Discard, os.Stdin)
	joined := false
	_, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{"key"}, Owner: owner, Wait: time.Hour, Waiting: func(lease.HeldError) {
		if !joined {
			joined = true
			fmt.Println("joined")
		}
	}})
	check(err)
}
