//go:build linux || darwin

package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/patience"
	"golang.org/x/sys/unix"
)

// members are a command, its child and its guardian, from a script that runs
// family.
type members struct{ child, grandchild, guardian int }

func meet(t *testing.T, dir string) members {
	t.Helper()
	m := members{child: pidIn(t, dir+"/child"), grandchild: pidIn(t, dir+"/grandchild")}
	pgid, err := unix.Getpgid(m.child)
	if err != nil {
		t.Fatal(err)
	}
	m.guardian = pgid
	t.Cleanup(func() { _ = unix.Kill(-pgid, unix.SIGKILL) })
	return m
}

func (m members) dead() bool { return !alive(m.child) && !alive(m.grandchild) }

func TestWrapperKilled(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "store", "tasklock.db")
	command, dir := script(t, family)
	w := prepare(t, config{Store: db, TTL: 10 * patience.Limit, Command: command}).run()
	m := meet(t, dir)
	w.signal(syscall.SIGKILL)
	took := within(t, patience.Limit, "end of the whole family", m.dead)
	eventually(t, "end of the guardian", func() bool { return !alive(m.guardian) })
	t.Logf("dead after %s", took)

	// With the whole group gone, death is proved: no waiting for the ttl.
	<-w.ended
	st, err := openStore(db)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var g lease.Grant
	eventually(t, "the next one is served", func() bool {
		g, err = lease.Acquire(context.Background(), st, lease.AcquireRequest{Keys: []string{"deploy"}, Owner: "next"})
		return err == nil
	})
	if len(g.TookOver) != 1 || g.TookOver[0].Why != lease.Dead {
		t.Errorf("%+v", g)
	}
}

// As long as something of the group lives, the death of the wrapper proves
// nothing.
func TestGroupKeepsTheLock(t *testing.T) {
	t.Parallel()
	for range 10 { // a busy machine may not let us look before the group is dead
		if groupKeepsTheLock(t) > 0 || t.Failed() {
			return
		}
	}
	t.Error("the family died too early to show anything")
}

// groupKeepsTheLock returns how often the lock was refused after the wrapper died.
func groupKeepsTheLock(t *testing.T) (refused int) {
	db := filepath.Join(t.TempDir(), "store", "tasklock.db")
	st, err := openStore(db)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	command, dir := script(t, family)
	w := prepare(t, config{Store: db, TTL: 10 * patience.Limit, Command: command}).run()
	m := meet(t, dir)
	w.signal(syscall.SIGKILL)
	eventually(t, "the next one is served", func() bool {
		_, err := lease.Acquire(context.Background(), st, lease.AcquireRequest{Keys: []string{"deploy"}, Owner: "next"})
		if err != nil {
			refused++
		}
		return err == nil
	})
	if !m.dead() {
		t.Error("served while something of the group was alive")
	}
	return refused
}

func TestWrapperKilledWhileWaiting(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "store", "tasklock.db")
	st, err := openStore(db)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	g, err := lease.Acquire(context.Background(), st, lease.AcquireRequest{Keys: []string{"deploy"}, Owner: "other"})
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(t.TempDir(), "ran")
	w := prepare(t, config{Store: db, Wait: time.Minute, Command: []string{"touch", mark}}).run()
	eventually(t, "a waiter", func() bool {
		c, err := lease.Check(context.Background(), st, lease.CheckRequest{Key: "deploy"})
		return err == nil && c.Lock != nil && c.Lock.Waiters == 1
	})
	w.signal(syscall.SIGKILL)
	<-w.ended
	if _, err := lease.Release(context.Background(), st, lease.ReleaseRequest{Owner: "other", Lease: g.LeaseID}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran after its wrapper was killed")
	}
	// Its ticket is as dead as it is.
	eventually(t, "the next one is served", func() bool {
		_, err := lease.Acquire(context.Background(), st, lease.AcquireRequest{Keys: []string{"deploy"}, Owner: "next"})
		return err == nil
	})
}

func TestGuardianKilled(t *testing.T) {
	t.Parallel()
	command, dir := script(t, family)
	w := prepare(t, config{TTL: 10 * patience.Limit, Command: command}).run()
	m := meet(t, dir)
	if err := unix.Kill(m.guardian, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "end of the whole family", m.dead)
	if o := w.wait(); o.ExitCode != 137 || !strings.Contains(o.Err, "guardian") || o.Lost != "" {
		t.Errorf("%+v", o)
	}
}

func TestEverythingKilledAtOnce(t *testing.T) {
	t.Parallel()
	command, dir := script(t, family)
	w := prepare(t, config{TTL: 10 * patience.Limit, Command: command}).run()
	m := meet(t, dir)
	// Stopped first, so that neither can act when the other dies.
	for _, pid := range []int{w.pid(), m.guardian} {
		_ = unix.Kill(pid, unix.SIGSTOP)
	}
	for _, pid := range []int{w.pid(), m.guardian} {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if runtime.GOOS == "darwin" {
		return // the kernel there does not help
	}
	eventually(t, "end of the command", func() bool { return !alive(m.child) })
}

// stopTTL is long enough that nobody loses a lease because the machine is busy.
const stopTTL = 6 * time.Second

func TestWrapperStopped(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "store", "tasklock.db")
	command, dir := script(t, family)
	w := prepare(t, config{Store: db, TTL: stopTTL, Command: command}).run()
	m := meet(t, dir)
	time.Sleep(stopTTL / 2) // renewed at least once
	w.signal(syscall.SIGSTOP)
	stopped := time.Now() // no heartbeat began after this
	st, err := openStore(db)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := lease.Acquire(context.Background(), st, lease.AcquireRequest{Keys: []string{"deploy"}, Owner: "next", Wait: 2 * patience.Limit}); err != nil {
		t.Fatal(err)
	}
	if !m.dead() {
		t.Error("the lease was given away while the command lives")
	}
	t.Logf("given away after %s of %s", time.Since(stopped), stopTTL)
	w.signal(syscall.SIGCONT)
	if o := w.wait(); o.ExitCode != 137 || o.Lost == "" || w.cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%+v", o)
	}
}

// The wrapper wakes up when the guardian has begun to end the command, and the
// lease itself could still be renewed.
func TestWrapperStoppedForALittle(t *testing.T) {
	t.Parallel()
	command, dir := script(t, family)
	w := prepare(t, config{TTL: 3 * time.Second, Command: command}).run()
	m := meet(t, dir)
	w.signal(syscall.SIGSTOP)
	eventually(t, "end of the whole family", m.dead)
	w.signal(syscall.SIGCONT)
	if o := w.wait(); o.ExitCode != 137 || o.Lost == "" {
		t.Errorf("%+v", o)
	}
}

// Everything is stopped, someone else takes over, everything goes on: the old
// command is dead before it can do harm for long.
func TestEverythingStopped(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "store", "tasklock.db")
	command, dir := script(t, family)
	w := prepare(t, config{Store: db, TTL: stopTTL, Command: command}).run()
	m := meet(t, dir)
	_ = unix.Kill(w.pid(), unix.SIGSTOP)
	_ = unix.Kill(-m.guardian, unix.SIGSTOP)
	stopped := time.Now()

	next := prepare(t, config{Store: db, TTL: 30 * time.Second, Wait: patience.Limit, Command: []string{"sleep", "4"}}).run()
	time.Sleep(2*stopTTL - time.Since(stopped))
	beats := size(t, dir+"/beats")
	_ = unix.Kill(-m.guardian, unix.SIGCONT)
	_ = unix.Kill(w.pid(), unix.SIGCONT)
	took := within(t, patience.Limit, "end of the whole family", m.dead)
	t.Logf("dead after %s", took)
	old := w.wait()
	if old.Lost == "" || w.cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%+v", old)
	}
	if after := size(t, dir+"/beats"); after > beats+400 { // two processes, 20 a second each
		t.Errorf("worked on: %d beats after it was woken", after-beats)
	}
	o := next.wait()
	if o.ExitCode != 0 || o.Err != "" || o.Token <= old.Token {
		t.Errorf("the new holder, after %+v: %+v", old, o)
	}
}

// The group is stopped and the wrapper is not: the lease is kept, and when it
// is lost a stopped guardian does not save the command.
func TestGroupStopped(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "store", "tasklock.db")
	command, dir := script(t, family)
	w := prepare(t, config{Store: db, TTL: stopTTL, Command: command}).run()
	m := meet(t, dir)
	_ = unix.Kill(-m.guardian, unix.SIGSTOP)
	time.Sleep(stopTTL + time.Second)
	if !alive(m.child) {
		t.Error("killed although the lease was kept")
	}
	st, err := openStore(db)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := lease.Break(context.Background(), st, lease.BreakRequest{Keys: []string{"deploy"}, By: "admin", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "end of the whole family", m.dead)
	if o := w.wait(); o.Lost == "" {
		t.Errorf("%+v", o)
	}
}
