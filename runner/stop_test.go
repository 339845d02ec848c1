//go:build linux || darwin

package runner_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestSignalsAreForwarded(t *testing.T) {
	for _, bare := range []bool{false, true} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
			// The grandchild hears it too, and the command decides what it means.
			command, dir := script(t, `
trap 'wait; exit 42' INT TERM HUP QUIT USR1 USR2
sh -c 'trap "touch '$D'/grandchild; exit" INT TERM HUP QUIT USR1 USR2; touch '$D'/ready; while :; do sleep 0.01; done' &
while :; do sleep 0.01; done`)
			if sig == syscall.SIGINT || sig == syscall.SIGQUIT {
				// A shell's background jobs ignore these.
				command, dir = script(t, `trap 'touch $D/grandchild; exit 42' INT QUIT; touch $D/ready; while :; do sleep 0.01; done`)
			}
			w := prepare(t, config{Command: command, Bare: bare}).run()
			eventually(t, "ready", func() bool { _, err := os.Stat(dir + "/ready"); return err == nil })
			w.signal(sig)
			if o := w.wait(); o.ExitCode != 42 || o.Err != "" {
				t.Errorf("%s: %+v", sig, o)
			}
			if _, err := os.Stat(dir + "/grandchild"); err != nil {
				t.Errorf("%s did not reach the whole group", sig)
			}
		}
	}
}

func TestSignalEndsTheWait(t *testing.T) {
	db := t.TempDir() + "/store/tasklock.db"
	st, err := openStore(db)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := lease.Acquire(context.Background(), st, lease.AcquireRequest{Keys: []string{"deploy"}, Owner: "other"}); err != nil {
		t.Fatal(err)
	}
	w := prepare(t, config{Store: db, Wait: time.Minute, Command: []string{"true"}}).run()
	eventually(t, "a waiter", func() bool {
		c, err := lease.Check(context.Background(), st, lease.CheckRequest{Key: "deploy"})
		return err == nil && c.Lock != nil && c.Lock.Waiters == 1
	})
	w.signal(syscall.SIGINT)
	if o := w.wait(); o.ExitCode != 130 || !strings.Contains(o.Err, "interrupt") {
		t.Errorf("%+v", o)
	}
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	command, dir := script(t, `trap 'exit 1' HUP; kill -HUP $$; touch $D/ready; while ! test -e $D/go; do sleep 0.01; done; exit 42`)
	w := prepare(t, config{Command: command})
	w.cmd.Args = append([]string{"nohup", w.cmd.Path}, w.cmd.Args[1:]...)
	w.cmd.Path = "/usr/bin/nohup"
	w.run()
	eventually(t, "ready", func() bool { _, err := os.Stat(dir + "/ready"); return err == nil })
	w.signal(syscall.SIGHUP)
	time.Sleep(50 * time.Millisecond)
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if o := w.wait(); o.ExitCode != 42 {
		t.Errorf("%+v", o)
	}
}

// A descriptor that the wrapper was given reaches the command under its number.
func TestDescriptorsAreInherited(t *testing.T) {
	w := prepare(t, config{Command: []string{"sh", "-c", `read a <&3; read b <&5; test "$a $b" = "three five" || exit 1; test ! -e /dev/fd/4 -a ! -e /dev/fd/6`}})
	w.cmd.Args = []string{"sh", "-c", `exec "$0" 3<"$1" 5<"$2"`, w.cmd.Path, t.TempDir() + "/three", t.TempDir() + "/five"}
	for i, text := range map[int]string{4: "three\n", 5: "five\n"} {
		if err := os.WriteFile(w.cmd.Args[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.cmd.Path = "/bin/sh"
	if o := w.run().wait(); o.ExitCode != 0 || o.Err != "" {
		t.Errorf("%+v", o)
	}
}

// What the command leaves in its group ends before the lock is free.
func TestLeftovers(t *testing.T) {
	keepers(t, func(t *testing.T, guardian []string) {
		st := memory()
		command, dir := script(t, `sh -c 'trap "" TERM; echo $$ > '$D'/left; sleep 600' & while ! test -s $D/left; do :; done; exit 5`)
		o := options(guardian, command)
		o.Grace = 100 * time.Millisecond
		res, err := runner.Run(context.Background(), st, o)
		if err != nil || res.ExitCode != 5 {
			t.Errorf("%+v, %v", res, err)
		}
		if alive(pidIn(t, dir+"/left")) {
			t.Error("what the command left behind still lives")
		}
		free(t, st)
	})
}

// A process that has left the group on purpose is left alone, and does not
// keep the lock.
func TestDaemonIsLeftAlone(t *testing.T) {
	keepers(t, func(t *testing.T, guardian []string) {
		command, dir := script(t, `setsid sh -c 'echo $$ > '$D'/daemon; exec sleep 600' & while ! test -s $D/daemon; do :; done`)
		began := time.Now()
		res, err := runner.Run(context.Background(), memory(), options(guardian, command))
		if err != nil || res.ExitCode != 0 || time.Since(began) > patience.Limit {
			t.Errorf("%+v, %v after %s", res, err, time.Since(began))
		}
		pid := pidIn(t, dir+"/daemon")
		if !alive(pid) {
			t.Error("the daemon was killed")
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	})
}

var errStop = errors.New("enough")

func TestCancelled(t *testing.T) {
	keepers(t, func(t *testing.T, guardian []string) {
		for name, c := range map[string]struct {
			script string
			code   int
			grace  time.Duration
		}{
			"obeys TERM":   {`trap 'exit 9' TERM; touch $D/ready; while :; do sleep 0.01; done`, 9, patience.Limit},
			"ignores TERM": {`trap '' TERM; touch $D/ready; while :; do sleep 0.01; done`, 137, 200 * time.Millisecond},
			"is stopped":   {`touch $D/ready; kill -STOP $$`, 143, patience.Limit},
		} {
			st := memory()
			command, dir := script(t, c.script)
			o := options(guardian, command)
			o.Acquire.TTL, o.Grace = 10*patience.Limit, c.grace
			ctx, cancel := context.WithCancelCause(context.Background())
			done := start(t, ctx, st, o)
			eventually(t, "ready", func() bool { _, err := os.Stat(dir + "/ready"); return err == nil })
			time.Sleep(20 * time.Millisecond)
			cancel(errStop)
			if r := <-done; !errors.Is(r.err, errStop) || r.res.ExitCode != c.code || r.res.Lost != nil {
				t.Errorf("%s: %+v", name, r)
			}
			free(t, st)
		}
	})
}

func TestBroken(t *testing.T) {
	t.Parallel()
	keepers(t, func(t *testing.T, guardian []string) {
		t.Parallel()
		st := memory()
		command, dir := script(t, family)
		o := options(guardian, command)
		o.Acquire.TTL = 3 * time.Second
		done := start(t, context.Background(), st, o)
		child, grandchild := pidIn(t, dir+"/child"), pidIn(t, dir+"/grandchild")
		if _, err := lease.Break(context.Background(), st, lease.BreakRequest{Keys: []string{"deploy"}, By: "admin", Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		r := <-done
		if !errors.Is(r.err, lease.ErrLost) || !errors.Is(r.res.Lost, lease.ErrLost) || r.res.ExitCode != 137 {
			t.Errorf("%+v", r)
		}
		if alive(child) || alive(grandchild) {
			t.Error("something still runs")
		}
	})
}

// TestBrokenBeyondTheGroup: what runs under timeout has a process group of its
// own, and ends with the lease all the same, even if it ignores TERM.
func TestBrokenBeyondTheGroup(t *testing.T) {
	if _, err := exec.LookPath("timeout"); err != nil {
		t.Skip("there is no timeout(1) here")
	}
	t.Parallel()
	for name, wrap := range map[string]string{"the command": `exec timeout 600 sh -c`, "a child": `timeout 600 sh -c`} {
		t.Run(name, func(t *testing.T) {
			keepers(t, func(t *testing.T, guardian []string) {
				st := memory()
				command, dir := script(t, wrap+` 'D='$D'
'`+"'"+strings.ReplaceAll(family, "'", `'\''`)+"'")
				o := options(guardian, command)
				o.Acquire.TTL, o.Grace = 30*time.Minute, 100*time.Millisecond
				done := start(t, context.Background(), st, o)
				child, grandchild := pidIn(t, dir+"/child"), pidIn(t, dir+"/grandchild")
				if _, err := lease.Break(context.Background(), st, lease.BreakRequest{Keys: []string{"deploy"}, By: "admin", Reason: "test"}); err != nil {
					t.Fatal(err)
				}
				if r := <-done; !errors.Is(r.err, lease.ErrLost) || !strings.Contains(r.err.Error(), "broken by admin: test") {
					t.Errorf("%+v", r)
				}
				if alive(child) || alive(grandchild) {
					t.Error("something still runs")
				}
			})
		})
	}
}

// TestGuardianStopsAtTerm: the command takes its TERM by stopping the guardian, and
// ends. The wrapper alone has to find what runs under timeout, whose parent is gone.
func TestGuardianStopsAtTerm(t *testing.T) {
	if _, err := exec.LookPath("timeout"); err != nil {
		t.Skip("there is no timeout(1) here")
	}
	t.Parallel()
	st := memory()
	command, dir := script(t, `trap 'kill -STOP $PPID; exit 0' TERM
timeout 600 sh -c 'D='$D'
'`+"'"+strings.ReplaceAll(family, "'", `'\''`)+"' & while :; do wait; done")
	o := options(guardianCommand(), command)
	o.Acquire.TTL, o.Grace = 20*time.Second, 100*time.Millisecond
	done := start(t, context.Background(), st, o)
	child, grandchild := pidIn(t, dir+"/child"), pidIn(t, dir+"/grandchild")
	if _, err := lease.Break(context.Background(), st, lease.BreakRequest{Keys: []string{"deploy"}, By: "admin", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	if r := <-done; !errors.Is(r.err, lease.ErrLost) {
		t.Errorf("%+v", r)
	}
	if alive(child) || alive(grandchild) {
		t.Error("something still runs")
	}
	for _, pid := range []int{child, grandchild} {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// brittle is a store that can be made to fail, or to hang whatever its context
// says.
type brittle struct {
	driver.Store
	fail, hang atomic.Bool
	let        chan struct{}
	last       atomic.Int64 // start of the last commit that succeeded
}

func (b *brittle) Commit(ctx context.Context, batch driver.Batch) (int64, error) {
	began := time.Now()
	if b.hang.Load() {
		<-b.let
	}
	if b.fail.Load() || b.hang.Load() {
		return 0, errors.New("no")
	}
	rev, err := b.Store.Commit(ctx, batch)
	if err == nil {
		b.last.Store(began.UnixNano())
	}
	return rev, err
}

func (b *brittle) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	if b.hang.Load() {
		<-b.let
	}
	if b.fail.Load() || b.hang.Load() {
		return driver.Snapshot{}, errors.New("no")
	}
	return b.Store.Read(ctx, q)
}

// The command is dead before the store may give its lease away, whatever is
// wrong with the store.
func TestStoreOutOfReach(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	keepers(t, func(t *testing.T, guardian []string) {
		t.Parallel()
		for name, breakIt := range map[string]func(*brittle){
			"fails": func(b *brittle) { b.fail.Store(true) },
			"hangs": func(b *brittle) { b.hang.Store(true) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := &brittle{Store: memstore.New(), let: make(chan struct{})}
				defer close(b.let)
				command, dir := script(t, family)
				o := options(guardian, command)
				o.Acquire.TTL = ttl
				done := start(t, context.Background(), store.New(b), o)
				pids := []int{pidIn(t, dir+"/child"), pidIn(t, dir+"/grandchild")}
				time.Sleep(ttl) // it is renewed
				for _, pid := range pids {
					if !alive(pid) {
						t.Fatal("ended although the lease was renewed")
					}
				}
				breakIt(b)
				end := time.Unix(0, b.last.Load()).Add(ttl)
				r := <-done
				beats, err := os.Stat(dir + "/beats")
				if err != nil {
					t.Fatal(err)
				}
				left := end.Sub(beats.ModTime())
				if left <= 0 {
					t.Errorf("worked on for %s after the lease", -left)
				}
				t.Logf("ended %s before the lease, Run %s before it", left, end.Sub(r.at))
				if !errors.Is(r.res.Lost, lease.ErrLost) || r.res.ExitCode != 137 {
					t.Errorf("%+v", r)
				}
				for _, pid := range pids {
					if alive(pid) {
						t.Error("something still runs")
					}
				}
			})
		}
	})
}

// A store that hangs at the very end does not keep the caller for ever.
func TestReleaseHangs(t *testing.T) {
	t.Parallel()
	b := &brittle{Store: memstore.New(), let: make(chan struct{})}
	defer close(b.let)
	command, dir := script(t, `touch $D/ready; while ! test -e $D/go; do sleep 0.01; done; exit 3`)
	o := options(guardianCommand(), command)
	o.Acquire.TTL = 4 * time.Second // which is what the release may take
	done := start(t, context.Background(), store.New(b), o)
	eventually(t, "ready", func() bool { _, err := os.Stat(dir + "/ready"); return err == nil })
	b.hang.Store(true)
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := <-done
	if r.res.ExitCode != 3 || r.err == nil || !strings.Contains(r.err.Error(), "release") {
		t.Errorf("%+v", r)
	}
}
