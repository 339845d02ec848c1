package lease_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
)

// alive is one call of an owner; it returns how many leases were renewed.
func (w *world) alive(l lease.Caller) int {
	w.Helper()
	snap, err := w.mem.Read(w.ctx, driver.Query{Ranges: []driver.Range{l.Range()}})
	w.must(err)
	due := l.Due(snap)
	w.must(l.Renew(w.ctx, w.st, due))
	return len(due)
}

func TestCallsAreSignsOfLife(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "s", Keys: []string{"a"}, TTL: time.Minute})
		w.grant(lease.AcquireRequest{Owner: "s/sub", Keys: []string{"b"}, TTL: time.Minute})
		w.grant(lease.AcquireRequest{Owner: "s/sub", Keys: []string{"c"}, TTL: time.Minute, Process: host.Self()}) // renews itself
		w.grant(lease.AcquireRequest{Owner: "s2", Keys: []string{"d"}, TTL: time.Minute})
		if n := w.alive(lease.Caller{Owner: "s"}); n != 0 {
			t.Errorf("%d renewed though nothing was due", n)
		}
		time.Sleep(30 * time.Second)
		if n := w.alive(lease.Caller{Owner: "s"}); n != 1 { // not what a child has: that may be dead
			t.Errorf("%d renewed", n)
		}
		if n := w.alive(lease.Caller{Owner: "s/sub"}); n != 1 {
			t.Errorf("%d renewed", n)
		}
		time.Sleep(40 * time.Second)
		for key, want := range map[string]bool{"a": true, "b": true, "c": false, "d": false} {
			if w.locked(key) != want {
				t.Errorf("%s: %v", key, !want)
			}
		}
		if n := w.alive(lease.Caller{Owner: "s/sub"}); n != 2 { // a parent's too
			t.Errorf("%d renewed", n)
		}
	})
}

func TestRenewDueAfterALoss(t *testing.T) {
	bubble(t, func(w *world) {
		w.grant(lease.AcquireRequest{Owner: "s", Keys: []string{"a"}, TTL: time.Minute})
		w.grant(lease.AcquireRequest{Owner: "s", Keys: []string{"b"}, TTL: time.Minute})
		time.Sleep(2 * time.Minute)
		if n := w.alive(lease.Caller{Owner: "s"}); n != 0 {
			t.Errorf("%d came back to life", n)
		}
		l := lease.Caller{Owner: "s", Late: true}
		snap, err := w.mem.Read(w.ctx, driver.Query{Ranges: []driver.Range{l.Range()}})
		w.must(err)
		w.acquire("other", "a") // between the look and the renewal
		w.must(l.Renew(w.ctx, w.st, l.Due(snap)))
		if w.holder("a") != "other" || !w.locked("b") {
			t.Errorf("a: %s, b: %v", w.holder("a"), w.locked("b"))
		}
	})
}

// A session that goes on in a new process takes its leases along.
func TestSessionGoesOnInAnotherProcess(t *testing.T) {
	w := newWorld(t)
	old := sleeper(t)
	was, err := host.Find(old.Process.Pid)
	w.must(err)
	for session, key := range map[string]string{"one": "a", "two": "b"} {
		w.grant(lease.AcquireRequest{Owner: "s", Keys: []string{key}, Process: was, Session: session})
	}
	now := lease.Caller{Owner: "s", Process: host.Self(), Session: "one"}
	if n := w.alive(now); n != 0 {
		t.Errorf("%d taken from a process that lives", n)
	}
	w.must(old.Process.Kill())
	_ = old.Wait()
	if w.locked("a") || w.locked("b") {
		t.Error("locked by a dead process")
	}
	if n := w.alive(now); n != 1 || !w.locked("a") || w.locked("b") {
		t.Errorf("%d taken along", n)
	}
}

// What a session took where its process cannot be seen, in a sandbox, ends with that
// process as soon as a call of the session names it; what has no end does not.
func TestSessionNamesItsProcessLater(t *testing.T) {
	w := newWorld(t)
	harness := sleeper(t)
	p, err := host.Find(harness.Process.Pid)
	w.must(err)
	w.grant(lease.AcquireRequest{Owner: "s", Keys: []string{"a"}, Session: "one"})
	w.grant(lease.AcquireRequest{Owner: "s", Keys: []string{"other"}, Session: "two"})
	w.grant(lease.AcquireRequest{Owner: "s", Keys: []string{"endless"}, Session: "one", TTL: lease.Endless})
	life := lease.Caller{Owner: "s", Process: p, Session: "one"}
	if n := w.alive(life); n != 1 {
		t.Errorf("%d named their process", n)
	}
	if n := w.alive(life); n != 0 {
		t.Errorf("%d named it twice", n)
	}
	w.must(harness.Process.Kill())
	_ = harness.Wait()
	if w.locked("a") || !w.locked("other") || !w.locked("endless") {
		t.Errorf("a %v, other %v, endless %v", w.locked("a"), w.locked("other"), w.locked("endless"))
	}
}

func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestKeep(t *testing.T) {
	t.Parallel() // it mostly sleeps
	const ttl = 5 * time.Second
	w := newWorld(t)
	work := sleeper(t)
	p, err := host.Find(work.Process.Pid)
	w.must(err)
	g := w.grant(lease.AcquireRequest{Owner: "s", Keys: []string{"a", "path:src"}, Process: p, TTL: ttl})
	done := make(chan error, 1)
	go func() { done <- lease.Keep(w.ctx, w.st, g.LeaseID, p) }()
	for end := time.Now().Add(ttl + 2*time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if h := w.check("a"); h.Lock == nil || h.Lock.Token != g.Token {
			t.Fatalf("lost while its process lives: %+v", h)
		}
	}
	w.must(work.Process.Kill())
	_ = work.Wait()
	w.must(<-done)
	if w.holder("a") != "" || len(w.kinds("lease/")) > 0 {
		t.Errorf("not released: %v", w.kinds(""))
	}
}

func TestKeepEndsWithItsLease(t *testing.T) {
	w := newWorld(t)
	g := w.grant(lease.AcquireRequest{Owner: "s", Keys: []string{"a"}, Process: host.Self(), TTL: time.Hour})
	done := make(chan error, 1)
	go func() { done <- lease.Keep(w.ctx, w.st, g.LeaseID, host.Self()) }()
	w.release("s", "a")
	select {
	case err := <-done:
		w.must(err)
	case <-time.After(time.Minute):
		t.Error("it goes on")
	}
}
