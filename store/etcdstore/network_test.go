package etcdstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/etcdtest"
	"github.com/tasklock/tasklock/internal/proxy"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/etcdstore"
)

// behind opens a store through a bad network, and another one beside it.
func behind(t *testing.T, o etcdstore.Options) (p *proxy.Proxy, bad, good *etcdstore.Store, c *etcdtest.Cluster) {
	t.Helper()
	c = one(t)
	p, err := proxy.New(c.Members[0].Addr)
	must(t, err)
	t.Cleanup(p.Close)
	prefix := newPrefix()
	good = open(t, c.URL(prefix))
	return p, openWith(t, "etcd://"+p.Addr()+"/"+prefix, o), good, c
}

// replies reports whether these bytes of HTTP/2 hold the head or the body of an
// answer, and not only the small talk of the protocol.
func replies(b []byte) bool {
	for len(b) >= 9 {
		if kind := b[3]; kind <= 1 {
			return true
		}
		n := 9 + int(b[0])<<16 + int(b[1])<<8 + int(b[2])
		if n > len(b) {
			return false
		}
		b = b[n:]
	}
	return false
}

// A connection cut after the commit and before the reply: the driver does not
// know, and says so; the layer above finds out. One effect, every time.
func TestCutBeforeTheReply(t *testing.T) {
	p, bad, good, _ := behind(t, etcdstore.Options{})
	for i := range 5 {
		key := fmt.Sprintf("task/cut%d", i)
		cut := p.CutAnswer(func(b []byte) bool { return bytes.Contains(b, []byte(key)) }, replies)
		_, err := bad.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: key}}, Writes: []driver.Write{put(key)}})
		<-cut
		if err == nil || errors.Is(err, driver.ErrConflict) || driver.Refusal(err) {
			t.Fatalf("the reply was cut, and Commit says: %v", err)
		}
		if get(t, good, key).Rev == 0 {
			t.Fatalf("%s was cut before it was committed: the test has shown nothing", key)
		}
	}

	st := store.New(bad)
	const n = 10
	for i := range n {
		nonce := fmt.Sprintf("cut-%d", i)
		cut := p.CutAnswer(func(b []byte) bool { return bytes.Contains(b, []byte(`{"n":`)) }, replies)
		must(t, increment(t.Context(), st, nonce))
		<-cut
	}
	counted(t, store.New(good), n)
}

// Silence ends in time, says nothing about the outcome, and is over when the
// network is.
func TestBlackHole(t *testing.T) {
	t.Parallel() // it mostly waits
	p, bad, good, _ := behind(t, etcdstore.Options{Timeout: time.Second})
	for _, d := range []proxy.Direction{proxy.ToClient, proxy.ToServer} {
		p.BlackHole(d)
		_, err := bad.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
		if err == nil || driver.Refusal(err) {
			t.Fatalf("Read in a black hole: %v", err)
		}
		_, err = bad.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/a")}})
		if err == nil || driver.Refusal(err) || errors.Is(err, driver.ErrConflict) || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Commit in a black hole: %v", err)
		}
		p.Heal()
		p.Cut()
		must(t, increment(t.Context(), store.New(bad), fmt.Sprintf("after-%d", d)))
	}
	counted(t, store.New(good), 2)
}

// A waiter that hears nothing while its key is written and the past compacted
// away: its watch cannot go on where it was, and it looks again.
func TestCompactedUnderAWatch(t *testing.T) {
	p, bad, good, c := behind(t, etcdstore.Options{Timeout: time.Second, Poll: time.Hour})
	rev, err := good.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/a")}})
	must(t, err)
	woken := make(chan error, 1)
	go func() { woken <- bad.Wait(t.Context(), []driver.Guard{{Key: "lock/a", Rev: rev}}) }()
	time.Sleep(100 * time.Millisecond) // asleep by now, as a rule; both orders must work
	p.BlackHole(proxy.Both)
	for range 3 {
		_, err = good.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/a")}})
		must(t, err)
	}
	cl := client(t, c)
	head, err := cl.Get(t.Context(), "x")
	must(t, err)
	_, err = cl.Compact(t.Context(), head.Header.Revision)
	must(t, err)
	p.Cut()
	p.Heal()
	select {
	case err := <-woken:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the waiter was never woken")
	}
}

// A server that is down is not a refusal, and it does not take long to say so.
func TestServerDown(t *testing.T) {
	_, err := etcdstore.Open(t.Context(), "etcd://127.0.0.1:1/x", &etcdstore.Options{Timeout: time.Second})
	if err == nil || driver.Refusal(err) {
		t.Fatalf("nobody listens there: %v", err)
	}
}

// A lone member that is killed and started again goes on with what it had.
func TestRestart(t *testing.T) {
	t.Parallel() // it mostly waits
	c := etcdtest.Start(t, 1)
	url := c.URL(newPrefix())
	s := open(t, url)
	st := store.New(s)
	for i := range 3 {
		rev, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/a")}})
		must(t, err)
		c.Kill(0)
		if _, err := s.Read(t.Context(), driver.Query{}); err == nil || driver.Refusal(err) {
			t.Fatalf("Read from a dead server: %v", err)
		}
		must(t, c.Run(0))
		must(t, increment(t.Context(), st, fmt.Sprintf("restart-%d", i)))
		if got := get(t, s, "lock/a").Rev; got != rev {
			t.Fatalf("written at %d, after the restart at %d", rev, got)
		}
	}
	counted(t, st, 3)
}
