//go:build linux || darwin

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/internal/worker"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

// troubled is a runner on a moody store. Its command waits for the file "go".
type troubled struct {
	t    *testing.T
	m    *drivertest.Moody
	good *store.Store // the same, never moody
	dir  string
	j    journal
	stop context.CancelFunc
	done chan error
}

func startTroubled(t *testing.T) *troubled {
	inner := memstore.New()
	x := &troubled{t: t, m: &drivertest.Moody{Store: inner}, good: store.New(inner), dir: t.TempDir(), done: make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	x.stop = stop
	go func() {
		_, err := worker.Work(ctx, store.New(x.m), worker.Options{
			Owner: "me", Name: "R", Wait: true, Log: x.j.log, Dir: x.dir, NoStdin: true,
			Command: []string{"sh", "-c", "touch began; until [ -e go ]; do sleep 0.05; done"},
		})
		x.done <- err
	}()
	patience.Until(t, "it is idle", func() bool { return x.j.has("R: Going idle") })
	return x
}

func (x *troubled) add() {
	if _, err := task.Add(x.t.Context(), x.good, task.AddRequest{Tasks: []task.New{{Title: "a"}}, By: "test"}); err != nil {
		x.t.Fatal(err)
	}
}

func (x *troubled) touch(name string) {
	if err := os.WriteFile(filepath.Join(x.dir, name), nil, 0o600); err != nil {
		x.t.Fatal(err)
	}
}

func (x *troubled) says(what string) bool {
	x.j.mu.Lock()
	defer x.j.mu.Unlock()
	return strings.Contains(strings.Join(x.j.lines, "\n"), what)
}

// completed waits until the task is, and ends the runner.
func (x *troubled) completed() {
	x.t.Helper()
	patience.Until(x.t, "the task is completed", func() bool { return statusOf(x.t, x.good, "t1").Status == task.Completed })
	x.stop()
	if err := <-x.done; err != nil {
		x.t.Error(err)
	}
	if n := statusOf(x.t, x.good, "t1").Attempts; n != 1 {
		x.t.Errorf("%d attempts", n)
	}
}

// A runner outlives what can pass by itself, be it while it looks, while it
// claims or while it writes what came of a task.
func TestRunnerOutlives(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{errors.New("connection refused"), driver.ErrDenied, driver.ErrFull} {
		t.Run(fmt.Sprint(failure, ", looking"), func(t *testing.T) {
			t.Parallel()
			x := startTroubled(t)
			x.m.Fail(failure, failure)
			x.add()
			x.touch("go")
			patience.Until(t, "the log says it", func() bool { return x.says(failure.Error()) })
			x.m.Fail(nil, nil)
			x.completed()
		})
		t.Run(fmt.Sprint(failure, ", claiming"), func(t *testing.T) {
			t.Parallel()
			x := startTroubled(t)
			x.m.Fail(nil, failure)
			x.add()
			x.touch("go")
			patience.Until(t, "the log says it", func() bool { return x.says(failure.Error()) })
			x.m.Fail(nil, nil)
			x.completed()
		})
		t.Run(fmt.Sprint(failure, ", working"), func(t *testing.T) {
			t.Parallel()
			x := startTroubled(t)
			x.add()
			patience.Until(t, "it works", func() bool { _, err := os.Stat(filepath.Join(x.dir, "began")); return err == nil })
			x.m.Fail(nil, failure)
			x.touch("go")
			patience.Until(t, "the log says it", func() bool { return x.says(failure.Error()) })
			x.m.Fail(nil, nil)
			x.completed()
		})
	}
}

// One damaged record is nothing that a runner ends for: somebody will mend it.
func TestRunnerOutlivesADamagedRecord(t *testing.T) {
	t.Parallel()
	x := startTroubled(t)
	put := func(text []byte) {
		_, err := x.m.Store.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "task/t1", Value: text}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	x.m.Fail(driver.ErrDenied, driver.ErrDenied) // until the record is damaged
	x.add()
	snap, err := x.m.Store.Read(t.Context(), driver.Query{Keys: []string{"task/t1"}})
	if err != nil {
		t.Fatal(err)
	}
	put([]byte(`{"id":`))
	x.m.Fail(nil, nil)
	patience.Until(t, "the log says it", func() bool { return x.says(`record "task/t1"`) })
	put(snap.Records[0].Value)
	x.touch("go")
	x.completed()
}

// A runner ends with what cannot pass by itself; at its start, with every refusal.
func TestRunnerEnds(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{driver.ErrNewer, driver.ErrOlder, driver.ErrMissing, driver.ErrUnsafe, driver.ErrDamaged, driver.ErrClosed} {
		t.Run(failure.Error(), func(t *testing.T) {
			t.Parallel()
			x := startTroubled(t)
			x.m.Fail(failure, failure)
			select {
			case err := <-x.done:
				if !errors.Is(err, failure) {
					t.Error(err)
				}
			case <-time.After(2 * patience.Limit):
				t.Error("goes on")
			}
		})
	}
	for _, failure := range []error{driver.ErrDenied, driver.ErrMissing, errors.New("connection refused")} {
		t.Run(failure.Error()+", at its start", func(t *testing.T) {
			m := &drivertest.Moody{Store: memstore.New()}
			m.Fail(failure, failure)
			_, err := worker.Work(t.Context(), store.New(m), worker.Options{Owner: "me", Wait: true, Command: []string{"true"}})
			if !errors.Is(err, failure) {
				t.Error(err)
			}
		})
	}
}
