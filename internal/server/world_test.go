package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/server"
	"github.com/tasklock/tasklock/store"
	_ "github.com/tasklock/tasklock/store/sqlitestore"
)

// world is a store with servers on it, as whole as clients see them.
type world struct {
	*testing.T
	url string
	st  *store.Store
	*replica
}

// replica is one server.
type replica struct {
	server *server.Server
	addr   string // http://127.0.0.1:port

	mu  sync.Mutex
	log []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, url: "sqlite:" + filepath.Join(t.TempDir(), "locks.db")}
	w.st = w.open()
	w.replica = w.serve(server.Options{})
	return w
}

func (w *world) open() *store.Store {
	w.Helper()
	st, err := store.Open(context.Background(), w.url, &store.OpenOptions{Create: true})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = st.Close() })
	return st
}

// serve starts another server, with a handle of the store of its own.
func (w *world) serve(o server.Options) *replica {
	w.Helper()
	r := &replica{}
	o.Note = func(text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.log = append(r.log, text)
	}
	r.server = server.New(w.open(), o)
	if err := r.server.Follow(w.Context()); err != nil {
		w.Fatal(err)
	}
	h := httptest.NewServer(r.server.Handler())
	r.addr = h.URL
	w.Cleanup(func() { r.server.Stop(); h.Close() })
	return r
}

// key makes an access key.
func (w *world) key(role access.Role, owner string) access.AddResult {
	w.Helper()
	k, err := access.Add(w.Context(), w.st, access.AddRequest{Role: role, Owner: owner})
	if err != nil {
		w.Fatal(err)
	}
	return k
}

// reply is what a client sees.
type reply struct {
	status int
	header http.Header
	text   string

	State    string
	LeaseID  string
	Owner    string
	Token    int64
	Position int
	Code     string
	Detail   string
	Locked   bool
	Locks    []struct{ Key, Owner, LeaseID string }
	Released []struct{ Key string }
}

// call sends a request: body is nil, text or something that becomes JSON.
func (r *replica) call(method, path, key, request string, body any) (reply, error) {
	return r.send(context.Background(), method, path, key, request, body)
}

func (r *replica) send(ctx context.Context, method, path, key, request string, body any) (out reply, err error) {
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		text, _ := json.Marshal(b)
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.addr+path, in)
	if err != nil {
		return out, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if request != "" {
		req.Header.Set("Idempotency-Key", request)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return do(req)
}

func do(req *http.Request) (out reply, err error) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	out = reply{status: res.StatusCode, header: res.Header, text: string(text)}
	if len(text) > 0 {
		_ = json.Unmarshal(text, &out)
	}
	return out, err
}

// must is call with a status that must come.
func (w *world) must(status int, method, path, key, request string, body any) reply {
	w.Helper()
	return w.at(w.replica, status, method, path, key, request, body)
}

func (w *world) at(r *replica, status int, method, path, key, request string, body any) reply {
	w.Helper()
	out, err := r.call(method, path, key, request, body)
	if err != nil {
		w.Fatal(err)
	}
	if out.status != status {
		w.Fatalf("%s %s: status %d, want %d: %s", method, path, out.status, status, out.text)
	}
	if want := "application/problem+json"; out.status >= 400 && (out.header.Get("Content-Type") != want || out.Code == "") {
		w.Fatalf("%s %s: not a problem: %s %s", method, path, out.header.Get("Content-Type"), out.text)
	}
	return out
}

type object = map[string]any

var requests struct {
	sync.Mutex
	n int
}

// id is a new Idempotency-Key.
func id() string {
	requests.Lock()
	defer requests.Unlock()
	requests.n++
	return fmt.Sprintf("request-%020d", requests.n)
}

// field is one text of an answer.
func field(t *testing.T, text, name string) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	s, _ := all[name].(string)
	return s
}
