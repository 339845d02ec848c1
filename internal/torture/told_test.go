//go:build linux

package torture

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
)

const (
	toldTTL  = "30m"           // its heartbeat would tell after ten minutes
	toldTime = 2 * time.Minute // which is long before that, on the busiest machine
)

// TestTold: who breaks a lock stops the work under it, long before a heartbeat
// would tell: run, a runner, a scheduler, the library. The long form prints how
// long it takes from the end of break to the end of the work.
func TestTold(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		if b.name == gitHTTP.name {
			t.Skip("git polls, over http as from a file")
		}
		f := &holders{place: b.place(t), binary: command(t)}
		f.must(t, "tasks", "add", "work")
		f.must(t, "jobs", "add", "j", "--cron", "@yearly", "--ttl", toldTTL, "--", "sh", "-c", f.work("scheduler"))
		t.Run("forms", func(t *testing.T) {
			for name, once := range map[string]func(*testing.T) time.Duration{
				"run": func(t *testing.T) time.Duration {
					return f.command(t, "run", "deploy", "--ttl", toldTTL, "--", "sh", "-c", f.work("run"))
				},
				"runner": func(t *testing.T) time.Duration {
					return f.command(t, "runner", "start", "--ttl", toldTTL, "--", "sh", "-c", f.work("runner"))
				},
				"scheduler": func(t *testing.T) time.Duration {
					f.must(t, "jobs", "trigger", "j")
					return f.command(t, "scheduler", "--grace", "1s")
				},
				"library": f.library,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					n := 1
					if full() {
						n = long.Count(5)
					}
					var took []time.Duration
					for range n {
						took = append(took, once(t))
					}
					slices.Sort(took)
					t.Logf("told %s %s: p50 %s, worst %s of %d", b.name, name, took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), n)
				})
			}
		})
	})
}

// holders are those who work under a lock of one store.
type holders struct {
	place
	binary string
}

// work is a command that says which process it is and under which key.
func (f *holders) work(form string) string {
	return fmt.Sprintf(`echo $$ "$TASKLOCK_KEY" >'%[1]s.new' && mv '%[1]s.new' '%[1]s'; exec sleep 3600`, filepath.Join(f.dir, "work-"+form))
}

func (f *holders) start(args ...string) *exec.Cmd {
	cmd := exec.Command(f.binary, append([]string{"--store", f.url, "--owner", "tester"}, args...)...)
	if cmd.Env = f.env(0); full() {
		cmd.Env = append(cmd.Env, "TASKLOCK_POLL_INTERVAL=5s") // the default, for git
	}
	return cmd
}

func (f *holders) must(t *testing.T, args ...string) {
	t.Helper()
	if out, err := f.start(args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

// command starts one that holds a lock, breaks the lock, and returns how long
// what works under it went on.
func (f *holders) command(t *testing.T, args ...string) time.Duration {
	t.Helper()
	form := args[0]
	_ = os.Remove(filepath.Join(f.dir, "work-"+form))
	cmd := f.start(args...)
	var said quiet
	cmd.Stderr, cmd.WaitDelay = &said, time.Second
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	defer func() {
		for { // the second one does not wait for what runs by now
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	var pid int
	var key string
	seen(t, "work under "+form, &said, func() bool {
		text, err := os.ReadFile(filepath.Join(f.dir, "work-"+form))
		if err != nil {
			return false
		}
		_, err = fmt.Sscan(string(text), &pid, &key)
		return err == nil
	})
	f.must(t, "break", key, "--reason", "test")
	broken := time.Now()
	seen(t, "the end of the work under "+form, &said, func() bool { return syscall.Kill(pid, 0) != nil })
	return time.Since(broken)
}

// library is a holder of this process.
func (f *holders) library(t *testing.T) time.Duration {
	t.Helper()
	d, err := f.open(context.Background(), f.url)
	must(t, err)
	st := store.New(d)
	defer st.Close()
	l, err := lease.Hold(context.Background(), st, lease.AcquireRequest{Owner: "tester", Keys: []string{"library"}, TTL: 30 * time.Minute})
	must(t, err)
	defer l.Release(context.Background())
	f.must(t, "break", "library", "--reason", "test")
	broken := time.Now()
	select {
	case <-l.Context().Done():
	case <-time.After(toldTime):
		t.Fatal("the library was not told")
	}
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), "broken by tester: test") {
		t.Errorf("the loss says %v", err)
	}
	return time.Since(broken)
}

// quiet keeps what a process says, for the case that something is wrong.
type quiet struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (q *quiet) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.buf.Write(p)
}

func (q *quiet) String() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.buf.String()
}

// seen waits for what other processes do.
func seen(t *testing.T, what string, said *quiet, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > toldTime {
			t.Fatalf("not after %s: %s\n%s", toldTime, what, said)
		}
	}
}
