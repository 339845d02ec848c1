package httpstore_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tasklock/tasklock/internal/door"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/httpstore"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"https://h": "https://h", "https://h:8443/": "https://h:8443", "https://h/a/b/": "https://h/a/b", "https://h/a%20b": "https://h/a%20b",
		"https://h?keyfile=/k&ca=/c": "https://h", "http://localhost:1": "http://localhost:1", "http://127.0.0.9": "http://127.0.0.9",
		"http://[::1]:7": "http://[::1]:7",
	} {
		if p, err := httpstore.Parse(text); err != nil || p.URL != want {
			t.Errorf("%s: %q, %v", text, p.URL, err)
		}
	}
	for text, want := range map[string]error{
		"https://": driver.ErrInvalid, "https:x": driver.ErrInvalid, "https://h/%zz": driver.ErrInvalid, "ftp://h": driver.ErrInvalid,
		"https://secret@h": driver.ErrInvalid, "https://u:secret@h": driver.ErrInvalid, "https://h?key=secret": driver.ErrInvalid,
		"https://h#secret": driver.ErrInvalid, "https://h?keyfile=secret": driver.ErrInvalid, "https://h?%zzsecret": driver.ErrInvalid,
		"http://localhost?ca=/c": driver.ErrInvalid,
		"http://h":               driver.ErrUnsafe, "http://10.0.0.1": driver.ErrUnsafe, "http://localhost.evil": driver.ErrUnsafe, "http://127.0.0.1.evil": driver.ErrUnsafe,
	} {
		if _, err := httpstore.Parse(text); !errors.Is(err, want) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestKey(t *testing.T) {
	server := serve(t, memstore.New())
	file := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	opens := func(want error) {
		t.Helper()
		s, err := httpstore.Open(t.Context(), server.URL+"?keyfile="+file, nil)
		if !errors.Is(err, want) || strings.Contains(fmt.Sprint(err), "tl_") {
			t.Errorf("%v, want %v", err, want)
		}
		if err == nil {
			must(t, s.Close())
		}
	}
	t.Setenv("TASKLOCK_ACCESS_KEY", "tl_of_another_server") // the file belongs to the URL
	opens(nil)
	if runtime.GOOS != "windows" {
		must(t, os.Chmod(file, 0o640))
		opens(driver.ErrUnsafe)
		must(t, os.Chmod(file, 0o600))
	}
	must(t, os.WriteFile(file, []byte("tl_wrong"), 0o600))
	opens(driver.ErrDenied)
	must(t, os.WriteFile(file, []byte("tl_two\r\nHost: lines"), 0o600))
	opens(driver.ErrInvalid)
	must(t, os.Remove(file))
	opens(driver.ErrDenied)

	t.Setenv("TASKLOCK_ACCESS_KEY", "")
	if _, err := httpstore.Open(t.Context(), server.URL, nil); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "export TASKLOCK_ACCESS_KEY") {
		t.Error(err)
	}
}

// A key that is revoked ends the work with an answer: the server itself says that
// nothing was changed.
func TestRevoked(t *testing.T) {
	var revoked atomic.Bool
	s := memstore.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if revoked.Load() {
			r.Header.Del("Authorization")
		}
		guarded(door.Handler(s)).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c := open(t, server.URL, nil)
	revoked.Store(true)
	if _, err := c.Commit(t.Context(), write("lock/a")); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("a commit with a revoked key: %v", err)
	}
	if err := c.Wait(t.Context(), []driver.Guard{{Key: "lock/a"}}); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("a wait with a revoked key: %v", err)
	}
}

// What a proxy on the way answers says nothing about a commit that was sent, and a
// redirect is not followed.
func TestForeignAnswers(t *testing.T) {
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	var status atomic.Int64
	var head, page atomic.Value
	head.Store("")
	page.Store("<html>nginx</html>")
	s := memstore.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status.Load() == 0 {
			guarded(door.Handler(s)).ServeHTTP(w, r)
			return
		}
		guarded(door.Handler(s)).ServeHTTP(httptest.NewRecorder(), r) // it did arrive
		if status.Load() >= 300 && status.Load() < 400 {
			w.Header().Set("Location", elsewhere.URL+r.URL.Path)
		}
		if h := head.Load().(string); h != "" {
			w.Header().Set(h, "2")
		}
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(page.Load().(string)))
	}))
	t.Cleanup(server.Close)
	c := open(t, server.URL, nil)
	for _, code := range []int{200, 201, 204, 301, 302, 307, 308, 400, 401, 403, 404, 405, 408, 409, 413, 429, 500, 502, 503, 504} {
		status.Store(int64(code))
		_, err := c.Commit(t.Context(), write("lock/a"))
		unknown(t, fmt.Sprint(code), err)
		_, err = c.Read(t.Context(), driver.Query{})
		if refused := code == 401 || code == 403 || code == 413; err == nil || driver.Refusal(err) != refused {
			t.Errorf("%d: a read says %v", code, err)
		}
	}
	status.Store(200)
	for _, text := range []string{"", "{}", `{"rev":7,"more":true}`, `{"rev":7`, `[]`, `"ok"`} {
		page.Store(text)
		for _, h := range []string{"", door.Door} {
			head.Store(h)
			_, err := c.Commit(t.Context(), write("lock/a"))
			unknown(t, text, err)
			if _, err := c.Read(t.Context(), driver.Query{}); err == nil || driver.Refusal(err) {
				t.Errorf("a read is answered with %s: %v", text, err)
			}
		}
	}
	head.Store("")
	if n := asked.Load(); n > 0 {
		t.Errorf("a redirect was followed %d times", n)
	}

	head.Store(door.Untouched)
	page.Store(`{"detail":"too many requests"}`)
	for code, want := range map[int]error{429: driver.ErrUntouched, 503: driver.ErrUntouched, 401: driver.ErrDenied, 413: driver.ErrTooLarge} {
		status.Store(int64(code))
		if _, err := c.Commit(t.Context(), write("lock/a")); !errors.Is(err, want) || !strings.Contains(err.Error(), "too many requests") {
			t.Errorf("%d of the server itself: %v", code, err)
		}
	}
	status.Store(404)
	_, err := httpstore.Open(t.Context(), server.URL, nil)
	if lacks, ok := errors.AsType[*driver.LacksError](err); !ok || lacks.Remedy != "tasklock serve --peers" {
		t.Errorf("no store for peers: %v", err)
	}
}

// With TLS, requests share a connection.
func TestHTTP2(t *testing.T) {
	var proto atomic.Value
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto.Store(r.Proto)
		door.Handler(memstore.New()).ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	open(t, server.URL+"?ca="+authority(t, server), nil)
	if proto.Load() != "HTTP/2.0" {
		t.Error(proto.Load())
	}
	if _, err := httpstore.Open(t.Context(), server.URL, nil); err == nil || driver.Refusal(err) {
		t.Errorf("a certificate that nobody has signed: %v", err)
	}
}

// Inspect reads everything, in parts.
func TestInspect(t *testing.T) {
	s := memstore.New()
	for i := range 3 {
		var b driver.Batch
		for j := range 700 {
			b.Writes = append(b.Writes, put(fmt.Sprintf("task/%d-%d", i, j)))
		}
		_, err := s.Commit(t.Context(), b)
		must(t, err)
	}
	r, err := httpstore.Inspect(t.Context(), serve(t, s).URL)
	if err != nil || r.Facts != "tasklock server, revision 3, 2100 records" || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
