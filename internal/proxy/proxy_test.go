package proxy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tasklock/tasklock/internal/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that sends back what it gets, and counts it.
func echo(t *testing.T) (addr string, got *countingWriter) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	got = &countingWriter{seen: make(chan string, 100)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, io.TeeReader(c, got))
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String(), got
}

type countingWriter struct{ seen chan string }

func (w *countingWriter) Write(b []byte) (int, error) {
	w.seen <- string(b)
	return len(b), nil
}

func start(t *testing.T) (*proxy.Proxy, *countingWriter) {
	t.Helper()
	addr, got := echo(t)
	p, err := proxy.New(addr)
	must(t, err)
	t.Cleanup(p.Close)
	return p, got
}

func dial(t *testing.T, p *proxy.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	must(t, err)
}

// hear reads for as long as it takes, or until the time is up.
func hear(c net.Conn, n int, limit time.Duration) (string, error) {
	_ = c.SetReadDeadline(time.Now().Add(limit))
	buf := make([]byte, n)
	k, err := io.ReadFull(c, buf)
	return string(buf[:k]), err
}

func answers(t *testing.T, c net.Conn, text string) {
	t.Helper()
	say(t, c, text)
	if got, err := hear(c, len(text), 10*time.Second); got != text {
		t.Fatalf("heard %q, %v, want %q", got, err, text)
	}
}

func silent(t *testing.T, c net.Conn) {
	t.Helper()
	if got, err := hear(c, 1, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q, %v, want silence", got, err)
	}
}

func ended(t *testing.T, c net.Conn) {
	t.Helper()
	if got, err := hear(c, 1, 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q, %v, want the connection's end", got, err)
	}
}

func TestPassesOn(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	answers(t, c, "hello")
	must(t, c.(*net.TCPConn).CloseWrite())
	if got, err := hear(c, 1, 10*time.Second); err != io.EOF {
		t.Fatalf("heard %q, %v after an orderly end", got, err)
	}
}

func TestCutAndRefuse(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	answers(t, c, "hello")
	p.Cut()
	ended(t, c)
	p.Refuse()
	if c, err := net.Dial("tcp", p.Addr()); err == nil { // else it was closed before we saw it open
		ended(t, c)
		must(t, c.Close())
	}
	p.Heal()
	answers(t, dial(t, p), "again")
}

func TestDelay(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	answers(t, c, "hello")
	p.Delay(30 * time.Millisecond)
	begin := time.Now()
	answers(t, c, "slow")
	if took := time.Since(begin); took < 60*time.Millisecond {
		t.Fatalf("there and back took %v", took)
	}
}

// In a black hole nothing is heard, whoever was there before or comes now, and
// nothing is lost when it ends.
func TestBlackHole(t *testing.T) {
	p, got := start(t)
	c := dial(t, p)
	answers(t, c, "a")
	<-got.seen
	p.BlackHole(proxy.Both)
	say(t, c, "b")
	late := dial(t, p)
	say(t, late, "c")
	silent(t, c)
	silent(t, late)
	if len(got.seen) > 0 {
		t.Fatalf("the server got %q", <-got.seen)
	}
	p.Heal()
	for c, want := range map[net.Conn]string{c: "b", late: "c"} {
		if text, err := hear(c, 1, 10*time.Second); text != want {
			t.Fatalf("heard %q, %v, want %q", text, err, want)
		}
	}
}

func TestOneWay(t *testing.T) {
	p, got := start(t)
	c := dial(t, p)
	answers(t, c, "a")
	<-got.seen
	p.BlackHole(proxy.ToClient)
	say(t, c, "b")
	if text := <-got.seen; text != "b" {
		t.Fatalf("the server got %q", text)
	}
	silent(t, c)
	p.BlackHole(proxy.ToServer)
	if text, _ := hear(c, 1, 10*time.Second); text != "b" {
		t.Fatalf("heard %q", text)
	}
	say(t, c, "c")
	silent(t, c)
	if len(got.seen) > 0 {
		t.Fatalf("the server got %q", <-got.seen)
	}
}

// The server has done its work, and the client does not hear of it.
func TestCutAnswer(t *testing.T) {
	p, got := start(t)
	c, other := dial(t, p), dial(t, p)
	has := func(text string) func([]byte) bool {
		return func(b []byte) bool { return bytes.Contains(b, []byte(text)) }
	}
	sprung := p.CutAnswer(has("COMMIT"), nil)
	answers(t, c, "begin")
	<-got.seen
	answers(t, other, "other")
	<-got.seen
	say(t, c, "COMMIT")
	if text := <-got.seen; text != "COMMIT" {
		t.Fatalf("the server got %q", text)
	}
	ended(t, c)
	<-sprung
	answers(t, other, "COMMIT")
	answers(t, dial(t, p), "COMMIT")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
