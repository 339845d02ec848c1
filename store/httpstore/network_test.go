package httpstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/door"
	"github.com/tasklock/tasklock/internal/locktest"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/internal/proxy"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/httpstore"
	"github.com/tasklock/tasklock/store/memstore"
)

// behind is a bad network in front of a server over SQLite, and the store without
// either.
func behind(t testing.TB) (*proxy.Proxy, driver.Store) {
	t.Helper()
	s := sqlite(t)
	p, err := proxy.New(serve(t, s).Listener.Addr().String())
	must(t, err)
	t.Cleanup(p.Close)
	return p, s
}

// unknown requires that nobody can take err for an answer.
func unknown(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil || driver.Refusal(err) || errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrUntouched) ||
		errors.Is(err, driver.ErrFull) || errors.Is(err, driver.ErrNoTurn) {
		t.Errorf("%s: Commit says %v, and nobody can know", what, err)
	}
}

// isCommit finds a commit among the bytes of a connection.
func isCommit(b []byte) bool { return bytes.Contains(b, []byte("POST "+door.CommitPath)) }

// A connection cut after the commit and before the reply: the driver does not know,
// and says so; the layer above finds out. One effect, every time.
func TestCutBeforeTheReply(t *testing.T) {
	p, good := behind(t)
	bad := open(t, "http://"+p.Addr(), nil)
	for i := range 5 {
		key := fmt.Sprintf("task/cut%d", i)
		cut := p.CutAnswer(isCommit, nil)
		_, err := bad.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: key}}, Writes: []driver.Write{put(key)}})
		<-cut
		unknown(t, "the reply was cut", err)
		if get(t, good, key).Rev == 0 {
			t.Fatalf("%s was cut before it was committed: the test has shown nothing", key)
		}
	}
	st := store.New(bad)
	const n = 10
	for i := range n {
		cut := p.CutAnswer(isCommit, nil)
		must(t, increment(t.Context(), st, fmt.Sprintf("cut-%d", i)))
		<-cut
	}
	counted(t, store.New(good), n)
}

// The rules of locks are linearizable through a network that cuts every connection
// again and again, replies among them.
func TestLinearizableThroughCuts(t *testing.T) {
	p, _ := behind(t)
	ctx, stop := context.WithCancel(t.Context())
	cuts := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			if n%3 == 0 {
				p.Cut()
			} else {
				select {
				case <-p.CutAnswer(isCommit, nil):
				case <-ctx.Done():
				}
			}
			_ = driver.Sleep(ctx, rand.N(30*time.Millisecond))
		}
		cuts <- n
	}()
	locktest.Linearizable(t, func() *store.Store {
		for { // Open asks once, and may be cut
			s, err := httpstore.Open(t.Context(), "http://"+p.Addr(), nil)
			if err == nil {
				t.Cleanup(func() { must(t, s.Close()) })
				return store.New(s)
			}
			if driver.Refusal(err) || t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
	})
	stop()
	if n := <-cuts; n < 5 {
		t.Errorf("%d cuts: the test has shown nothing", n)
	} else {
		t.Logf("%d cuts", n)
	}
}

// Silence ends in time, says nothing about the outcome, and is over when the network
// is.
func TestBlackHole(t *testing.T) {
	t.Parallel() // it mostly waits
	p, good := behind(t)
	bad := open(t, "http://"+p.Addr(), &httpstore.Options{Timeout: time.Second})
	for _, d := range []proxy.Direction{proxy.ToClient, proxy.ToServer} {
		p.BlackHole(d)
		if _, err := bad.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}}); err == nil || driver.Refusal(err) {
			t.Fatalf("Read in a black hole: %v", err)
		}
		_, err := bad.Commit(t.Context(), write("lock/a"))
		if unknown(t, "silence", err); errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the caller's context has not ended: %v", err)
		}
		p.Heal()
		p.Cut()
		must(t, increment(t.Context(), store.New(bad), fmt.Sprintf("after-%d", d)))
	}
	counted(t, store.New(good), 2)
}

// A commit that could not begin to leave has changed nothing, also later.
func TestUntouched(t *testing.T) {
	t.Parallel() // it mostly waits
	t.Run("nobody listens", func(t *testing.T) {
		s := memstore.New()
		server := httptest.NewServer(guarded(door.Handler(s)))
		c := open(t, server.URL, nil)
		server.Close()
		patience.Until(t, "the connection to be refused", func() bool {
			_, err := c.Commit(t.Context(), write("lock/a"))
			return errors.Is(err, driver.ErrUntouched) && !driver.Refusal(err)
		})
	})
	t.Run("the handshake is late", func(t *testing.T) {
		s := memstore.New()
		url := serveTLS(t, s)
		addr, rest, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "?")
		p, err := proxy.New(addr)
		must(t, err)
		t.Cleanup(p.Close)
		c := open(t, "https://"+p.Addr()+"?"+rest, &httpstore.Options{Timeout: time.Second})
		p.Cut()
		p.BlackHole(proxy.ToClient)
		patience.Until(t, "a new connection to be silent", func() bool { // the first commits may go to the one that was cut
			_, err := c.Commit(t.Context(), write("lock/a"))
			return errors.Is(err, driver.ErrUntouched) && !driver.Refusal(err)
		})
		p.Heal()
		if _, err := c.Commit(t.Context(), write("lock/c")); err != nil {
			t.Fatal(err)
		}
		if r := get(t, s, "lock/a"); r.Rev != 0 {
			t.Errorf("the commit came late: %v", r)
		}
	})
}

// A server that is stopped and started again on its port goes on with its clients;
// connections that they kept are of no use, and nobody notices.
func TestRestart(t *testing.T) {
	s := memstore.New()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := l.Addr().String()
	run := func() *http.Server {
		server := &http.Server{Handler: guarded(door.Handler(s))}
		go func() { _ = server.Serve(l) }()
		return server
	}
	server := run()
	defer func() { _ = server.Close() }()
	c := open(t, "http://"+addr, nil)
	st := store.New(c)
	for i := range 5 {
		rev, err := c.Commit(t.Context(), write("lock/a"))
		must(t, err)
		waited := make(chan error, 1)
		go func() { waited <- c.Wait(t.Context(), []driver.Guard{{Key: "lock/a", Rev: rev}}) }()
		must(t, server.Close())
		if err := <-waited; err == nil || driver.Refusal(err) {
			t.Fatalf("a wait on a server that ended: %v", err)
		}
		if _, err := c.Read(t.Context(), driver.Query{}); err == nil || driver.Refusal(err) {
			t.Fatalf("Read from a server that ended: %v", err)
		}
		l, err = net.Listen("tcp", addr)
		must(t, err)
		server = run()
		must(t, increment(t.Context(), st, fmt.Sprint(i)))
		if got := get(t, c, "lock/a").Rev; got != rev {
			t.Fatalf("written at %d, after the restart at %d", rev, got)
		}
	}
	counted(t, st, 5)
}

// A server that reads a request and hangs up makes net/http send some requests
// again. A commit arrives once.
func TestNothingIsSentTwice(t *testing.T) {
	s := memstore.New()
	var commits atomic.Int64
	h := guarded(door.Handler(s))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == door.CommitPath {
			commits.Add(1)
			h.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c := open(t, server.URL, nil) // leaves a connection that is used again
	for i := range 10 {
		get(t, c, "lock/a")
		_, err := c.Commit(t.Context(), write("lock/a"))
		unknown(t, "the server hung up", err)
		if n := int(commits.Load()); n != i+1 {
			t.Fatalf("%d commits arrived of %d", n, i+1)
		}
	}
}

// A wait that the caller ends is ended at the server too, and a closed store ends
// its waits.
func TestWaitIsEnded(t *testing.T) {
	w := &waiting{Store: memstore.New()}
	server := serve(t, w)
	c := opened(t, server.URL)
	guards := []driver.Guard{{Key: "lock/a"}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- c.Wait(ctx, guards) }()
	patience.Until(t, "the server to wait", func() bool { return w.now.Load() == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	patience.Until(t, "the server's wait to end", func() bool { return w.now.Load() == 0 })
	go func() { ended <- c.Wait(t.Context(), guards) }()
	patience.Until(t, "the server to wait", func() bool { return w.now.Load() == 1 })
	must(t, c.Close())
	if err := <-ended; !errors.Is(err, driver.ErrClosed) {
		t.Error(err)
	}
	patience.Until(t, "the server's wait to end", func() bool { return w.now.Load() == 0 })
}

// waiting counts those who wait.
type waiting struct {
	driver.Store
	now atomic.Int64
}

func (w *waiting) Wait(ctx context.Context, guards []driver.Guard) error {
	w.now.Add(1)
	defer w.now.Add(-1)
	return w.Store.Wait(ctx, guards)
}

// A wait whose time is over at the server goes on.
func TestWaitGoesOn(t *testing.T) {
	w := &waiting{Store: memstore.New()}
	c := open(t, serve(t, w).URL, &httpstore.Options{Poll: 20 * time.Millisecond})
	ended := make(chan error, 1)
	go func() { ended <- c.Wait(t.Context(), []driver.Guard{{Key: "lock/a"}}) }()
	for range 3 { // waits
		patience.Until(t, "the server to wait", func() bool { return w.now.Load() == 1 })
		patience.Until(t, "the wait to be over", func() bool { return w.now.Load() == 0 })
	}
	if len(ended) > 0 {
		t.Fatalf("nothing has changed: %v", <-ended)
	}
	_, err := c.Commit(t.Context(), write("lock/a"))
	must(t, err)
	must(t, <-ended)
}

// A large answer arrives whole or not at all.
func TestLargeAnswers(t *testing.T) {
	p, good := behind(t)
	c := open(t, "http://"+p.Addr(), nil)
	const n = 2000
	for i := range n / 100 {
		var b driver.Batch
		for j := range 100 {
			b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("task/%04d", 100*i+j), Value: []byte(`{"pad":"` + strings.Repeat("x", 4000) + `"}`)})
		}
		_, err := good.Commit(t.Context(), b)
		must(t, err)
	}
	q := driver.Query{Ranges: []driver.Range{{Prefix: "task/"}}}
	snap, err := c.Read(t.Context(), q)
	must(t, err)
	if len(snap.Records) != n {
		t.Fatalf("%d records of %d", len(snap.Records), n)
	}
	for i := range 5 {
		parts := 0
		cut := p.CutAnswer(nil, func([]byte) bool { parts++; return parts > 2+3*i })
		snap, err := c.Read(t.Context(), q)
		<-cut
		if err == nil || driver.Refusal(err) || len(snap.Records) > 0 {
			t.Fatalf("cut after part %d: %d records, %v", parts, len(snap.Records), err)
		}
	}
}
