package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/internal/etcdtest"
	"github.com/tasklock/tasklock/internal/proxy"
)

// TestScript runs testdata/script with both programs as they are installed, and
// a real etcd at $ETCD; nobody listens at $PORT. Beside the commands of testscript there are:
//
//	exits N COMMAND...   the exit code is N
//	once RE FILE         the file matches exactly once
//	etcdput KEY VALUE    as anybody might, past tasklock
func TestScript(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts use links and sh")
	}
	if testing.Short() {
		t.Skip("builds both programs and starts etcd")
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, ".", "../tasklock-plus")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	etcd := etcdtest.Start(t, 1, "--unsafe-no-fsync")
	client, err := etcd.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	guarded := withPassword(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			name := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
			env.Setenv("TASKLOCK_OWNER", "alice")
			env.Setenv("HOME", env.WorkDir+"/home")
			for _, dir := range []string{"/home", "/.tasklock"} { // a project, with a user who has a home
				if err := os.MkdirAll(env.WorkDir+dir, 0o700); err != nil {
					return err
				}
			}
			env.Setenv("BIN", bin)
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("ETCD", etcd.URL(name))
			env.Setenv("PREFIX", name)
			port, err := proxy.Port()
			if err != nil {
				return err
			}
			env.Setenv("PORT", strconv.Itoa(port))
			env.Setenv("GUARDED", guarded.Members[0].Addr)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "once": once,
			"etcdput": func(ts *testscript.TestScript, _ bool, args []string) {
				_, err := client.Put(context.Background(), args[0], args[1])
				ts.Check(err)
			},
		},
	})
}

// withPassword is an etcd that lets in only root:root.
func withPassword(t *testing.T) *etcdtest.Cluster {
	t.Helper()
	c := etcdtest.Start(t, 1, "--unsafe-no-fsync")
	cl, err := clientv3.New(clientv3.Config{Endpoints: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cl.Close() }()
	ctx := t.Context()
	_, err1 := cl.UserAdd(ctx, "root", "root")
	_, err2 := cl.UserGrantRole(ctx, "root", "root")
	_, err3 := cl.AuthEnable(ctx)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return c
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit %d, want %s", code, args[0])
	}
}

func once(ts *testscript.TestScript, _ bool, args []string) {
	if n := strings.Count(ts.ReadFile(args[1]), args[0]); n != 1 {
		ts.Fatalf("%q is there %d times", args[0], n)
	}
}
