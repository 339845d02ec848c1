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

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store"
)

// holders measures what it costs that every holder looks at its locks once a
// second: its own time while nothing happens, and what it takes from others.
func (b *bench) holders() {
	b.holdersOn("SQLite", "sqlite", filepath.Join(b.fresh("holders"), "tasklock.db"))
	server, err := pgtest.New()
	check(err)
	defer server.Close()
	b.holdersOn("PostgreSQL", "postgres", server.Place())
}

func (b *bench) holdersOn(name, kind, place string) {
	st := openKind(kind, place)
	defer st.Close()
	for _, c := range []struct{ processes, each int }{{1, 1000}, {50, 1}} {
		b.section(fmt.Sprintf("Holders that look at their locks, %s: %d in each of %d processes", name, c.each, c.processes))
		g := startHolders(kind, place, c.processes, c.each)
		const idle = 10 * time.Second
		before, server := g.cpu(), cpuOf("postgres")
		time.Sleep(idle)
		used := 100 * float64(g.cpu()-before) / float64(idle)
		b.row("idle, share of a core", fmt.Sprintf("%.1f %%", used), "<= 10 %", used <= 10)
		if kind == "postgres" {
			b.note("and of the server", fmt.Sprintf("%.1f %%", 100*float64(cpuOf("postgres")-server)/float64(idle)))
		}
		alone, beside := g.beside(func() { pair(st, "other", "other") })
		b.row("unrelated pairs/s beside them", fmt.Sprintf("%.0f = %.2f of %.0f alone", beside, beside/alone, alone), ">= 0.95", beside >= 0.95*alone)
		g.end()
	}
}

func openKind(kind, place string) *store.Store {
	if kind == "postgres" {
		return store.New(openPostgres(place))
	}
	return store.New(open(place))
}

// A holding is processes that hold locks and do nothing else.
type holding struct {
	cmds []*exec.Cmd
	ins  []io.Closer
}

func startHolders(kind, place string, processes, each int) *holding {
	self, err := os.Executable()
	check(err)
	g := &holding{}
	for i := range processes {
		cmd := exec.Command(self, "worker", "hold", kind, place, fmt.Sprint("p", i, "-"), strconv.Itoa(each))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		check(err)
		out, err := cmd.StdoutPipe()
		check(err)
		check(cmd.Start())
		g.cmds, g.ins = append(g.cmds, cmd), append(g.ins, in)
		bufio.NewScanner(out).Scan() // it holds
	}
	return g
}

// holdWorker holds locks until the end of its input.
func holdWorker(args []string) {
	st := openKind(args[0], args[1])
	n, err := strconv.Atoi(args[3])
	check(err)
	for i := range n {
		_, err := lease.Hold(ctx, st, lease.AcquireRequest{Keys: []string{fmt.Sprint(args[2], i)}, Owner: "holder", TTL: time.Hour}) // heartbeats are not the matter here
		check(err)
	}
	fmt.Println("holding")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func (g *holding) cpu() (sum time.Duration) {
	for _, cmd := range g.cmds {
		sum += cpu(cmd.Process.Pid)
	}
	return sum
}

// beside measures fn while the holders are stopped and while they run, a little
// of each in turn: the disk is fast in one second and slow in the next.
func (g *holding) beside(fn func()) (alone, beside float64) {
	const turns = 10
	for range turns {
		g.signal(syscall.SIGSTOP)
		alone += rate(fn) / turns
		g.signal(syscall.SIGCONT)
		beside += rate(fn) / turns
	}
	return alone, beside
}

func (g *holding) signal(sig syscall.Signal) {
	for _, cmd := range g.cmds {
		check(cmd.Process.Signal(sig))
	}
}

func (g *holding) end() {
	for i, cmd := range g.cmds {
		check(g.ins[i].Close())
		_ = cmd.Wait()
	}
}

// cpuOf is the time that all processes of that name have run.
func cpuOf(name string) (sum time.Duration) {
	comms, err := filepath.Glob("/proc/[0-9]*/comm")
	check(err)
	for _, comm := range comms {
		text, err := os.ReadFile(comm)
		if err != nil || strings.TrimSpace(string(text)) != name {
			continue
		}
		text, err = os.ReadFile(filepath.Join(filepath.Dir(comm), "schedstat")) // each of its processes has one thread
		var n int64
		if _, err2 := fmt.Sscan(string(text), &n); err == nil && err2 == nil {
			sum += time.Duration(n)
		}
	}
	return sum
}
