package mcpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/mcpserver"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/sqlitestore"
	"github.com/tasklock/tasklock/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const accessKey = "0123456789abcdef0123456789abcdef"

// A world is a store on disk with clients of a server around it.
type world struct {
	*testing.T
	st *store.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	d, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), &sqlitestore.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return &world{t, store.New(d)}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) server(owner string) *mcpserver.Server {
	w.Helper()
	s, err := mcpserver.New(mcpserver.Options{Store: w.st, Owner: owner})
	w.must(err)
	return s
}

// A client is the SDK's own.
type client struct {
	w    *world
	s    *mcp.ClientSession
	told chan *mcp.ProgressNotificationParams
	end  func()
}

func (w *world) connect(t mcp.Transport, end func()) *client {
	w.Helper()
	c := &client{w: w, told: make(chan *mcp.ProgressNotificationParams, 100), end: end}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { c.told <- r.Params },
	}).Connect(w.Context(), t, nil)
	w.must(err)
	c.s = session
	return c
}

// stdio is a client with a server of its own, as a harness starts it.
func (w *world) stdio(owner string) *client {
	w.Helper()
	s := w.server(owner)
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeStdio(context.Background(), fromClient, toClient) }()
	c := w.connect(&mcp.IOTransport{Reader: fromServer, Writer: toServer}, func() {
		_ = toServer.Close() // as the death of the client would
		w.must(<-served)
		w.must(s.Close())
		_ = toClient.Close()
	})
	w.Cleanup(c.close)
	return c
}

// close ends the connection, and with it the server.
func (c *client) close() {
	if c.end != nil {
		c.end()
		_ = c.s.Close()
		c.end = nil
	}
}

// http is a server that several clients share.
func (w *world) http(owner string) (*mcpserver.Server, *httptest.Server) {
	s := w.server(owner)
	h := httptest.NewServer(s.Handler(mcpserver.HTTPOptions{AccessKey: accessKey}))
	w.Cleanup(func() {
		w.must(s.Close())
		h.Close()
	})
	return s, h
}

type bearer struct{ key string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return http.DefaultTransport.RoundTrip(r)
}

func (w *world) httpClient(h *httptest.Server) *client {
	w.Helper()
	c := w.connect(&mcp.StreamableClientTransport{
		Endpoint: h.URL + mcpserver.Path, HTTPClient: &http.Client{Transport: bearer{accessKey}}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, func() {})
	w.Cleanup(c.close)
	w.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return c
}

type args map[string]any

// call uses a tool whose answer is a result.
func (c *client) call(tool string, a args) mcpserver.Result {
	c.w.Helper()
	r, err := c.try(c.w.Context(), tool, a)
	c.w.must(err)
	return r
}

func (c *client) try(ctx context.Context, tool string, a args) (r mcpserver.Result, err error) {
	p := &mcp.CallToolParams{Name: tool, Arguments: a}
	p.SetProgressToken("progress of " + tool)
	res, err := c.s.CallTool(ctx, p)
	if err != nil {
		return r, err
	}
	text, _ := json.Marshal(res.StructuredContent)
	return r, json.Unmarshal(text, &r)
}

// want requires a state.
func (w *world) want(r mcpserver.Result, state string) mcpserver.Result {
	w.Helper()
	if r.State != state {
		w.Fatalf("state %q, want %q: %+v", r.State, state, r)
	}
	return r
}

func (w *world) addTasks(section string, titles ...string) (ids []string) {
	w.Helper()
	var list []task.New
	for _, t := range titles {
		list = append(list, task.New{Title: t, Section: section})
	}
	out, err := task.Add(w.Context(), w.st, task.AddRequest{Tasks: list, By: "test"})
	w.must(err)
	for _, t := range out.Tasks {
		ids = append(ids, t.ID)
	}
	return ids
}

func (w *world) locked(key string) bool {
	w.Helper()
	c, err := lease.Check(w.Context(), w.st, lease.CheckRequest{Key: key})
	w.must(err)
	return c.Locked
}

func (w *world) waiters(key string) int {
	w.Helper()
	c, err := lease.Check(w.Context(), w.st, lease.CheckRequest{Key: key})
	w.must(err)
	if c.Lock == nil {
		return 0
	}
	return c.Lock.Waiters
}
