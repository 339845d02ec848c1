package guard_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/internal/guard"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/internal/shellwrites"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
)

// yard is two repositories beside each other, each with a store of its own.
type yard struct {
	*testing.T
	root   string
	stores map[string]*store.Store
}

func newYard(t *testing.T) *yard {
	y := &yard{t, repo.Canonical(t.TempDir()), map[string]*store.Store{}}
	for _, name := range []string{"ours", "theirs"} {
		if out, err := exec.Command("git", "init", "-q", y.path(name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		y.stores[y.path(name)] = store.New(memstore.New())
	}
	y.mkdir("ours/src")
	y.mkdir("ours/.tasklock")
	y.mkdir("taken")
	return y
}

func (y *yard) path(name string) string { return filepath.Join(y.root, filepath.FromSlash(name)) }

func (y *yard) mkdir(name string) {
	if err := os.MkdirAll(y.path(name), 0o700); err != nil {
		y.Fatal(err)
	}
}

func (y *yard) lock(in string, r lease.AcquireRequest) {
	if _, err := lease.Acquire(context.Background(), y.stores[y.path(in)], r); err != nil {
		y.Fatal(err)
	}
}

var errNoStore = errors.New("no store")

func (y *yard) request(targets ...shellwrites.Target) guard.Request {
	return guard.Request{
		Dir: y.path("ours"), Owners: []string{"me"}, Targets: targets,
		Store: func(dir string) (guard.Store, error) {
			return guard.Store{Folder: filepath.Join(dir, repo.StoreDir)}, nil
		},
		Open: func(_ context.Context, dir string) (*store.Store, error) {
			if st := y.stores[dir]; st != nil {
				return st, nil
			}
			return nil, errNoStore
		},
	}
}

// judge is the reason for the denial, -1 if there is none.
func (y *yard) judge(r guard.Request) guard.Why {
	w := guard.Resolve(r)
	if d := w.Forbidden(); d != nil {
		return d.Why
	}
	d, err := w.Locked(context.Background())
	if err != nil {
		y.Fatal(err)
	}
	if d != nil {
		return d.Why
	}
	return -1
}

func TestJudge(t *testing.T) {
	y := newYard(t)
	y.lock("ours", lease.AcquireRequest{Keys: []string{"path:src"}, Owner: "other"})
	y.lock("ours", lease.AcquireRequest{Keys: []string{"path:mine"}, Owner: "me"})
	y.lock("ours", lease.AcquireRequest{Keys: []string{"deploy"}, Owner: "worker", Worktree: y.path("taken")})
	y.lock("theirs", lease.AcquireRequest{Keys: []string{"path:docs/*.md"}, Owner: "other"})
	if err := os.Symlink(y.path("ours/src"), y.path("ours/link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target shellwrites.Target
		want   guard.Why
	}{
		{shellwrites.Target{Path: "free.go"}, -1},
		{shellwrites.Target{Path: "mine/a.go"}, -1},
		{shellwrites.Target{Path: "src/a.go"}, guard.Locked},
		{shellwrites.Target{Path: "link/a.go"}, guard.Locked},          // the file counts, not its name
		{shellwrites.Target{Path: "link", Tree: true, Gone: true}, -1}, // only the link goes
		{shellwrites.Target{Path: "*.go", Pattern: true}, -1},
		{shellwrites.Target{Path: "s*/a.go", Pattern: true}, guard.Locked},
		{shellwrites.Target{Path: "s*/a.go", Pattern: true, There: true}, -1}, // no such file is there
		{shellwrites.Target{Path: "../theirs/docs/a.md"}, guard.Locked},
		{shellwrites.Target{Path: "../theirs/docs/a.txt"}, -1},
		{shellwrites.Target{Path: "../taken/a"}, guard.Occupied},
		{shellwrites.Target{Path: ".tasklock/tasklock.db"}, guard.Records},
		{shellwrites.Target{Path: ".tasklock/config.yaml"}, -1},
		{shellwrites.Target{Path: "..", Tree: true, Gone: true}, guard.Records},
	} {
		if got := y.judge(y.request(c.target)); got != c.want {
			t.Errorf("%+v: %d, want %d", c.target, got, c.want)
		}
	}
}

// What a person should do is denied where the project is strict.
func TestStrict(t *testing.T) {
	y := newYard(t)
	forced := y.request()
	forced.Calls = [][]string{{"release", "x", "--force"}}
	asks := y.request()
	asks.Calls = [][]string{{"break", "--help"}, {"run", "x", "--", "rm", "--force"}, {"--owner", "break", "list"}}
	for _, c := range []struct {
		r    guard.Request
		want guard.Why
	}{
		{forced, guard.Forced}, {asks, -1},
		{y.request(shellwrites.Target{Path: ".tasklock/config.yaml"}), guard.Settings},
		{y.request(shellwrites.Target{Path: "tasklock.yaml"}), guard.Settings},
	} {
		if got := y.judge(c.r); got != -1 {
			t.Errorf("%+v: %d, although the project is not strict", c.r.Calls, got)
		}
		c.r.Strict = true
		if got := y.judge(c.r); got != c.want {
			t.Errorf("%+v %+v: %d, want %d", c.r.Calls, c.r.Targets, got, c.want)
		}
	}
}

// A store that cannot be asked is an error, and excuses no other store.
func TestStoreThatCannotBeAsked(t *testing.T) {
	y := newYard(t)
	y.lock("theirs", lease.AcquireRequest{Keys: []string{"path:a"}, Owner: "other"})
	delete(y.stores, y.path("ours"))
	bad, locked := shellwrites.Target{Path: "x"}, shellwrites.Target{Path: "../theirs/a"}
	if d, err := guard.Resolve(y.request(bad)).Locked(context.Background()); d != nil || !errors.Is(err, errNoStore) {
		t.Errorf("%v, %v", d, err)
	}
	if d, _ := guard.Resolve(y.request(bad, locked)).Locked(context.Background()); d == nil || d.What != "a" || d.Lock.Owner != "other" {
		t.Errorf("%v", d)
	}
}
