//go:build linux || darwin

package runner_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
)

// keepers are the two ways to look after a command.
func keepers(t *testing.T, test func(t *testing.T, guardian []string)) {
	t.Run("guardian", func(t *testing.T) { test(t, guardianCommand()) })
	t.Run("attendant", func(t *testing.T) { test(t, nil) })
}

func options(guardian, command []string) runner.Options {
	return runner.Options{
		Acquire:  lease.AcquireRequest{Keys: []string{"deploy"}, Owner: "tester", TTL: 30 * time.Second},
		Command:  command,
		Guardian: guardian,
	}
}

func memory() *store.Store { return store.New(memstore.New()) }

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "echo", 0o644)
	garbage := write("garbage", "\x01\x02\x03", 0o755)
	noInterpreter := write("lost", "#!/no/such/interpreter\n", 0o755)
	keepers(t, func(t *testing.T, guardian []string) {
		for _, c := range []struct {
			name    string
			command []string
			code    int
			started bool
			locked  bool
		}{
			{"done", []string{"true"}, 0, true, true},
			{"failed", []string{"sh", "-c", "exit 3"}, 3, true, true},
			{"killed by a signal", []string{"sh", "-c", "kill -USR1 $$"}, 128 + int(syscall.SIGUSR1), true, true},
			{"killed", []string{"sh", "-c", "kill -KILL $$"}, 137, true, true},
			{"not found", []string{"no-such-command-anywhere"}, 127, false, false},
			{"no such file", []string{dir + "/nothing"}, 127, false, false},
			{"not executable", []string{plain}, 126, false, false},
			{"a folder", []string{dir}, 126, false, false},
			{"not a program", []string{garbage}, 126, false, true},
			{"no interpreter", []string{noInterpreter}, 127, false, true},
		} {
			t.Run(c.name, func(t *testing.T) {
				st := memory()
				res, err := runner.Run(context.Background(), st, options(guardian, c.command))
				if res.ExitCode != c.code {
					t.Errorf("exit code %d, want %d (%v)", res.ExitCode, c.code, err)
				}
				var start *runner.StartError
				if failed := errors.As(err, &start); failed == c.started {
					t.Errorf("error %v", err)
				}
				h, err := lease.History(context.Background(), st, lease.HistoryRequest{})
				if err != nil {
					t.Fatal(err)
				}
				if locked := len(h.Events) > 0; locked != c.locked {
					t.Errorf("events: %+v", h.Events)
				}
				free(t, st)
			})
		}
	})
}

func free(t *testing.T, st *store.Store) {
	t.Helper()
	c, err := lease.Check(context.Background(), st, lease.CheckRequest{Key: "deploy"})
	if err != nil || c.Locked {
		t.Errorf("still locked: %+v, %v", c.Lock, err)
	}
}

func TestBadOptions(t *testing.T) {
	for name, change := range map[string]func(*runner.Options){
		"no command":     func(o *runner.Options) { o.Command = nil },
		"negative grace": func(o *runner.Options) { o.Grace = -1 },
		"dry run":        func(o *runner.Options) { o.Acquire.DryRun = true },
		"bad key":        func(o *runner.Options) { o.Acquire.Keys = []string{"../x"} },
	} {
		o := options(guardianCommand(), []string{"true"})
		change(&o)
		var invalid *lease.InvalidError
		if res, err := runner.Run(context.Background(), memory(), o); !errors.As(err, &invalid) || res.ExitCode != -1 {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	o := options(nil, []string{"./true"})
	o.Dir = filepath.Join(t.TempDir(), "nowhere")
	if res, err := runner.Run(context.Background(), memory(), o); res.ExitCode != 126 || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder that does not exist: %+v, %v", res, err)
	}
}

func TestHeldPassesThrough(t *testing.T) {
	keepers(t, func(t *testing.T, guardian []string) {
		st := memory()
		if _, err := lease.Acquire(context.Background(), st, lease.AcquireRequest{Keys: []string{"deploy"}, Owner: "other"}); err != nil {
			t.Fatal(err)
		}
		mark := filepath.Join(t.TempDir(), "ran")
		res, err := runner.Run(context.Background(), st, options(guardian, []string{"touch", mark}))
		var held *lease.HeldError
		if !errors.As(err, &held) || held.Owner != "other" || res.ExitCode != -1 {
			t.Errorf("%+v, %v", res, err)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Error("the command ran without the lock")
		}
	})
}

func TestGuardianThatDoesNotWork(t *testing.T) {
	st := memory()
	if _, err := runner.Run(context.Background(), st, options([]string{"/no/such/guardian"}, []string{"true"})); err == nil {
		t.Error("no error")
	}
	_, err := runner.Run(context.Background(), st, options([]string{"true"}, []string{"true"}))
	if !errors.Is(err, runner.ErrGuardian) {
		t.Errorf("guardian that ends at once: %v", err)
	}
	free(t, st)
	if out, err := exec.Command(guardianCommand()[0], "guardian", "1", "3", "4").CombinedOutput(); err == nil || !strings.Contains(string(out), "by hand") {
		t.Errorf("guardian by hand: %q, %v", out, err)
	}
}

func TestEnvironment(t *testing.T) {
	keepers(t, func(t *testing.T, guardian []string) {
		st := memory()
		command, dir := script(t, `env > $D/env.new; mv $D/env.new $D/env; while ! test -e $D/go; do sleep 0.01; done`)
		o := options(guardian, command)
		o.Acquire.Keys = []string{"deploy", "a key"}
		o.Env = []string{"PATH=" + os.Getenv("PATH"), "TASKLOCK_STORE=here", "TASKLOCK_TOKEN=old", "OTHER=x"}
		var granted lease.Grant
		o.Holding = func(g lease.Grant) { granted = g }
		ctx := context.Background()
		done := start(t, ctx, st, o)
		env := map[string]string{}
		eventually(t, "environment", func() bool { return size(t, dir+"/env") > 0 })
		b, _ := os.ReadFile(dir + "/env")
		last := ""
		for _, line := range strings.Split(string(b), "\n") {
			k, v, ok := strings.Cut(line, "=")
			if !ok && last == "TASKLOCK_KEY" { // of several keys each has a line
				env[last] += "\n" + line
				continue
			}
			last = k
			if _, twice := env[k]; twice && k != "" {
				t.Errorf("%s twice", k)
			}
			env[k] = v
		}
		held, err := lease.Check(ctx, st, lease.CheckRequest{Key: "deploy"})
		if err != nil || !held.Locked {
			t.Fatal(held, err)
		}
		owner := held.Lock.Owner
		for k, want := range map[string]string{
			"TASKLOCK_KEY": "a key\ndeploy", "TASKLOCK_OWNER": owner + "/cmd", "TASKLOCK_STORE": "here", "OTHER": "x",
		} {
			if env[k] != want {
				t.Errorf("%s=%q, want %q", k, env[k], want)
			}
		}
		if !strings.HasPrefix(owner, "tester/") {
			t.Errorf("holder %q is not a child of its own", owner)
		}
		inside := env["TASKLOCK_OWNER"]
		var refused *lease.OwnerError
		if _, err := lease.Release(ctx, st, lease.ReleaseRequest{Owner: inside, Keys: []string{"deploy"}}); !errors.As(err, &refused) {
			t.Errorf("release from inside: %v", err)
		}
		g, err := lease.Acquire(ctx, st, lease.AcquireRequest{Owner: inside, Keys: []string{"deploy"}})
		if err != nil || !g.Keys[0].Reentrant {
			t.Errorf("use from inside: %+v, %v", g, err)
		}
		if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r := <-done
		if r.err != nil || r.res.ExitCode != 0 {
			t.Fatalf("%+v", r)
		}
		if g := r.res.Grant; env["TASKLOCK_LEASE"] != g.LeaseID || granted.LeaseID != g.LeaseID || g.Token == 0 || env["TASKLOCK_TOKEN"] == "old" {
			t.Errorf("grant %+v, environment %v", g, env)
		}
		free(t, st)
	})
}

type ended struct {
	res runner.Result
	err error
	at  time.Time
}

// start runs in the background of a test.
func start(t *testing.T, ctx context.Context, st *store.Store, o runner.Options) <-chan ended {
	t.Helper()
	done := make(chan ended, 1)
	go func() {
		res, err := runner.Run(ctx, st, o)
		done <- ended{res, err, time.Now()}
	}()
	return done
}

func TestFilesAndFolder(t *testing.T) {
	keepers(t, func(t *testing.T, guardian []string) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		o := options(guardian, []string{"sh", "-c", "cat; pwd; echo bad >&2"})
		o.Dir, o.Stdin, o.Stdout, o.Stderr = dir, strings.NewReader("hello\n"), &out, &errs
		res, err := runner.Run(context.Background(), memory(), o)
		if err != nil || res.ExitCode != 0 || out.String() != "hello\n"+dir+"\n" || errs.String() != "bad\n" {
			t.Errorf("%+v, %v, %q, %q", res, err, &out, &errs)
		}
	})
}

// The command starts with default dispositions although its guardian survives
// these signals.
func TestDispositionsAreDefault(t *testing.T) {
	keepers(t, func(t *testing.T, guardian []string) {
		for _, sig := range []string{"INT", "TERM", "HUP", "QUIT", "TSTP", "TTIN", "TTOU", "ALRM", "PIPE"} {
			var out bytes.Buffer
			// A shell cannot trap what was ignored when it started.
			o := options(guardian, []string{"sh", "-c", "trap 'echo heard' " + sig + "; kill -" + sig + " $$; true"})
			o.Stdout = &out
			if _, err := runner.Run(context.Background(), memory(), o); err != nil || out.String() != "heard\n" {
				t.Errorf("%s: %q, %v", sig, &out, err)
			}
		}
	})
}
