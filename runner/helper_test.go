//go:build linux || darwin

package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

// The test binary runs itself again: as guardian, and as the wrapper that is
// killed and stopped.

const configVariable = "RUNNER_TEST_CONFIG"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guardian" {
		os.Exit(runner.GuardianMain(os.Args[2:]))
	}
	if raw := os.Getenv(configVariable); raw != "" {
		os.Unsetenv(configVariable)
		os.Exit(wrapperMain(raw))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each guardian of a race build sleeps for a second
	hearAll()
	_ = flag.Set("test.parallel", "8") // what is parallel here waits most of the time
	os.Exit(m.Run())
}

// hearAll takes the signals that whoever started the tests ignores, as nohup
// and a shell's background jobs do: what is ignored here would be in every
// process of these tests.
func hearAll() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

func guardianCommand() []string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{exe, "guardian"}
}

// config of a wrapper process.
type config struct {
	Store   string // a database; empty: memory
	TTL     time.Duration
	Wait    time.Duration
	Command []string
	Bare    bool // without a guardian
	Result  string
}

// outcome is what a wrapper process leaves behind.
type outcome struct {
	ExitCode int
	Token    int64
	Lost     string
	Err      string
}

func wrapperMain(raw string) int {
	var c config
	must(json.Unmarshal([]byte(raw), &c))
	st, err := openStore(c.Store)
	must(err)
	o := runner.Options{
		Acquire: lease.AcquireRequest{Keys: []string{"deploy"}, Owner: "tester", TTL: c.TTL, Wait: c.Wait},
		Command: c.Command, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Forward: true,
		Guardian: guardianCommand(),
	}
	if c.Bare {
		o.Guardian = nil
	}
	if os.Getenv("RUNNER_TEST_LOG") != "" {
		o.Log = func(format string, args ...any) { fmt.Fprintf(os.Stderr, "wrapper: "+format+"\n", args...) }
	}
	res, err := runner.Run(context.Background(), st, o)
	out := outcome{ExitCode: res.ExitCode, Token: res.Grant.Token}
	if res.Lost != nil {
		out.Lost = res.Lost.Error()
	}
	if err != nil {
		out.Err = err.Error()
	}
	b, _ := json.Marshal(out)
	must(os.WriteFile(c.Result+".new", b, 0o600))
	must(os.Rename(c.Result+".new", c.Result))
	if res.Lost != nil {
		return 7
	}
	return res.ExitCode
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
}

func openStore(path string) (*store.Store, error) {
	if path == "" {
		return store.New(memstore.New()), nil
	}
	d, err := sqlitestore.Open(context.Background(), path, &sqlitestore.Options{Create: true})
	if err != nil {
		return nil, err
	}
	return store.New(d), nil
}

// wrapper is a wrapper process under test.
type wrapper struct {
	t      *testing.T
	cmd    *exec.Cmd
	result string
	out    *bytes.Buffer
	ended  chan struct{}
}

// prepare makes a wrapper process; start it with run.
func prepare(t *testing.T, c config) *wrapper {
	t.Helper()
	if c.TTL == 0 {
		c.TTL = 30 * time.Second
	}
	c.Result = filepath.Join(t.TempDir(), "result")
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	w := &wrapper{t: t, cmd: exec.Command(guardianCommand()[0]), result: c.Result, out: &bytes.Buffer{}, ended: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), configVariable+"="+string(raw))
	w.cmd.Stdout, w.cmd.Stderr = w.out, w.out
	w.cmd.WaitDelay = 200 * time.Millisecond // what outlives it may hold its output open
	return w
}

func (w *wrapper) run() *wrapper {
	w.t.Helper()
	if err := w.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_ = w.cmd.Wait()
		close(w.ended)
	}()
	w.t.Cleanup(func() {
		_ = w.cmd.Process.Signal(syscall.SIGCONT)
		_ = w.cmd.Process.Kill()
		<-w.ended
		if w.t.Failed() && w.out != nil {
			w.t.Logf("output of the wrapper:\n%s", w.out)
		}
	})
	return w
}

func (w *wrapper) pid() int { return w.cmd.Process.Pid }

func (w *wrapper) signal(sig syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(sig); err != nil {
		w.t.Fatal(err)
	}
}

// wait returns how the wrapper ended.
func (w *wrapper) wait() outcome {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(patience.Limit):
		w.t.Fatal("the wrapper does not end")
	}
	b, err := os.ReadFile(w.result)
	if err != nil {
		w.t.Fatalf("the wrapper left no result: %v, %v", err, w.cmd.ProcessState)
	}
	var o outcome
	if err := json.Unmarshal(b, &o); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// script is a shell command that has files of its own to talk through: $D.
func script(t *testing.T, text string) (command []string, dir string) {
	t.Helper()
	dir = t.TempDir()
	return []string{"sh", "-c", "D='" + dir + "'\n" + text}, dir
}

// family starts as a command with a child, both of which append to a file for
// as long as they live, and ignore TERM.
const family = `trap "" TERM
beat() { while :; do echo . >> $D/beats; sleep 0.05; done; }
beat & echo $! > $D/grandchild.new; echo $$ > $D/child.new
mv $D/grandchild.new $D/grandchild; mv $D/child.new $D/child
beat`

// pidIn reads a pid that a script wrote.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	var pid int
	eventually(t, "a pid in "+filepath.Base(path), func() bool {
		b, _ := os.ReadFile(path)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 0
	})
	return pid
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	fi, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return fi.Size()
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil { // asked often: a ps each time is a load of its own
		_, state, _ := strings.Cut(string(stat), ") ")
		return !strings.HasPrefix(state, "Z")
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

var eventually, within = patience.Until, patience.Within
