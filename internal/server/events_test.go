package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/server"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

// note writes events in one commit, each with a name.
func note(ctx context.Context, st *store.Store, names ...string) error {
	_, err := st.Update(ctx, driver.Query{}, func(tx *store.Tx) error {
		for _, name := range names {
			if err := lease.Log(tx, lease.Event{Event: "noted", Owner: "test", Reason: name}); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (w *world) note(names ...string) {
	w.Helper()
	if err := note(w.Context(), w.st, names...); err != nil {
		w.Fatal(err)
	}
}

// message is one server-sent event.
type message struct {
	event, id, data string
}

// stream opens a stream. After "retry" it is open: what comes later is sent.
func (w *world) stream(key, query, last string) *http.Response {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), "GET", w.addr+"/v1/events/stream"+query, nil)
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { res.Body.Close() })
	return res
}

// next reads up to the next message.
func next(r *bufio.Reader) (m message, err error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return m, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "event":
			m.event = value
		case "id":
			m.id = value
		case "data":
			m.data = value
		case "":
			if m.data != "" {
				return m, nil
			}
			m = message{}
		}
	}
}

func TestEvents(t *testing.T) {
	w := newWorld(t)
	viewer := w.key(access.Viewer, "").Secret
	start := w.events(viewer, "")
	w.note("a", "b")
	w.note("c")
	all := w.events(viewer, fmt.Sprintf("?since=%d", start.Rev))
	if len(all.Events) != 3 || all.Events[0].Reason+all.Events[1].Reason+all.Events[2].Reason != "abc" || all.Gap || all.More || all.Rev != all.Events[2].Rev {
		t.Errorf("%+v", all)
	}
	part := w.events(viewer, fmt.Sprintf("?since=%d&limit=1", start.Rev))
	if len(part.Events) != 2 || !part.More || part.Rev != part.Events[1].Rev { // a commit as a whole
		t.Errorf("%+v", part)
	}
	rest := w.events(viewer, fmt.Sprintf("?since=%d&limit=1", part.Rev))
	if len(rest.Events) != 1 || rest.Events[0].Reason != "c" || rest.More {
		t.Errorf("%+v", rest)
	}
	none := w.events(viewer, fmt.Sprintf("?since=%d", rest.Rev))
	if len(none.Events) != 0 || none.Rev != rest.Rev {
		t.Errorf("%+v", none)
	}
	if r := w.must(409, "GET", "/v1/events?since=999999999999", viewer, "", nil); r.Code != "REVISION_AHEAD" {
		t.Errorf("%+v", r)
	}
	w.must(400, "GET", "/v1/events?since=-1", viewer, "", nil)
	w.must(400, "GET", "/v1/events?limit=501", viewer, "", nil)
	w.must(401, "GET", "/v1/events", "", "", nil)
}

func (w *world) events(key, query string) (out server.Events) {
	w.Helper()
	r := w.must(200, "GET", "/v1/events"+query, key, "", nil)
	if err := json.Unmarshal([]byte(r.text), &out); err != nil {
		w.Fatal(err)
	}
	return out
}

func TestStream(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Viewer, "")
	w.note("before")
	since := w.events(key.Secret, "").Rev
	res := w.stream(key.Secret, fmt.Sprintf("?since=%d", since), "")
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%v", res)
	}
	r := bufio.NewReader(res.Body)
	if line, err := r.ReadString('\n'); err != nil || line != "retry: 2000\n" {
		t.Fatalf("%q %v", line, err)
	}
	w.note("a", "b")
	a, err := next(r)
	b, err2 := next(r)
	if err != nil || err2 != nil || a.id != "" || b.id == "" || !strings.Contains(a.data, `"reason":"a"`) || !strings.Contains(b.data, `"reason":"b"`) {
		t.Fatalf("%+v %+v", a, b)
	}
	again := bufio.NewReader(w.stream(key.Secret, "?since=0", b.id).Body) // the header counts
	w.note("c")
	for _, r := range []*bufio.Reader{r, again} {
		if c, err := next(r); err != nil || !strings.Contains(c.data, `"reason":"c"`) {
			t.Errorf("%+v %v", c, err)
		}
	}

	other := bufio.NewReader(w.stream(key.Secret, "", "999999999999").Body)
	if m, err := next(other); err != nil || m.event != "reset" || m.id == "" {
		t.Errorf("the revision of another store: %+v %v", m, err)
	}
	w.note("d")
	if m, err := next(other); err != nil || !strings.Contains(m.data, `"reason":"d"`) {
		t.Errorf("after the reset: %+v %v", m, err)
	}
	for _, query := range []string{"?since=x", "?since=-1", "?sinse=1"} {
		if res := w.stream(key.Secret, query, ""); res.StatusCode != 400 {
			t.Errorf("%s: %d", query, res.StatusCode)
		}
	}

	if _, err := access.Revoke(t.Context(), w.st, access.RevokeRequest{IDs: []string{key.ID}, By: "test"}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*bufio.Reader{r, other} {
		for err == nil {
			_, err = next(r)
		}
		if err != io.EOF {
			t.Errorf("after the key was revoked: %v", err)
		}
		err = nil
	}
}

// A server that stops ends its streams, and so does a reset of what was deleted begin one.
func TestStreamEnds(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Viewer, "").Secret
	w.note("old")
	rev := w.events(key, "").Rev
	_, err := w.st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
		return tx.Put("history/marks", map[string]any{"marks": []int{}, "below": rev})
	})
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(w.stream(key, "?since=0", "").Body)
	if m, err := next(r); err != nil || m.event != "reset" || m.id != strconv.FormatInt(rev, 10) {
		t.Fatalf("%+v %v", m, err)
	}
	w.server.Stop()
	text, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(text), "retry: 500") {
		t.Errorf("%q %v", text, err)
	}
}

func TestTooManyStreams(t *testing.T) {
	w := newWorld(t)
	key, other := w.key(access.Viewer, "").Secret, w.key(access.Viewer, "").Secret
	for range 32 {
		if res := w.stream(key, "", ""); res.StatusCode != 200 {
			t.Fatalf("%v", res)
		}
	}
	if r := w.must(429, "GET", "/v1/events/stream", key, "", nil); r.header.Get("Retry-After") == "" {
		t.Errorf("%+v", r)
	}
	if res := w.stream(other, "", ""); res.StatusCode != 200 {
		t.Errorf("another key: %v", res)
	}
}

// A stream that is cut at random misses no event, and repeats none that the client
// has acknowledged by the id of its last one.
func TestStreamIsCut(t *testing.T) {
	w := newWorld(t)
	const events, cuts = 5000, 100
	key := w.key(access.Viewer, "").Secret
	start := w.events(key, "").Rev
	wrote := make(chan error, 1)
	go func() {
		for n, size := 0, 1; n < events; size = size%3 + 1 {
			var names []string
			for ; len(names) < size && n < events; n++ {
				names = append(names, fmt.Sprint(n))
			}
			if err := note(t.Context(), w.st, names...); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	last, got, cut := strconv.FormatInt(start, 10), 0, 0
	for got < events {
		res := w.stream(key, "", last)
		body := io.Reader(res.Body)
		if cut < cuts {
			body = io.LimitReader(body, 100+rand.Int64N(6_000))
		}
		r := bufio.NewReader(body)
		for pending := 0; got < events; {
			m, err := next(r)
			if err != nil {
				break
			}
			var e lease.Event
			if err := json.Unmarshal([]byte(m.data), &e); err != nil || m.event != "" {
				t.Fatalf("%+v %v", m, err)
			}
			if e.Reason != fmt.Sprint(got+pending) {
				t.Fatalf("event %s comes after revision %s, want %d", e.Reason, last, got+pending)
			}
			if pending++; m.id != "" {
				last, got, pending = m.id, got+pending, 0
			}
		}
		res.Body.Close()
		cut++
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events, %d cuts", got, cut-1)
	if cut-1 < cuts {
		t.Errorf("only %d cuts", cut-1)
	}
}

// Streams that have caught up share one watch.
func TestStreamsReadOnce(t *testing.T) {
	d := drivertest.NewCounted(memstore.New())
	st := store.New(d)
	key, err := access.Add(t.Context(), st, access.AddRequest{Role: access.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(st, server.Options{})
	if err := s.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	defer h.Close()
	defer s.Stop()
	w := &world{T: t, st: st, replica: &replica{server: s, addr: h.URL}}
	var all []*bufio.Reader
	for range 32 {
		all = append(all, bufio.NewReader(w.stream(key.Secret, "", "").Body))
	}
	w.note("first") // which shows that all have begun
	for _, r := range all {
		if _, err := next(r); err != nil {
			t.Fatal(err)
		}
	}
	d.Take()
	w.note("second")
	for _, r := range all {
		if m, err := next(r); err != nil || !strings.Contains(m.data, "second") {
			t.Fatalf("%+v %v", m, err)
		}
	}
	if c := d.Take(); c.Reads >= int64(len(all)) { // some are looks at the access keys
		t.Errorf("%d reads for one event on %d streams", c.Reads, len(all))
	}
}

// recorder is an answer that a test reads while it is written.
type recorder struct {
	mu   sync.Mutex
	head http.Header
	text strings.Builder
}

func (r *recorder) Header() http.Header { return r.head }
func (r *recorder) WriteHeader(int)     {}
func (r *recorder) Flush()              {}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// A stream on which nothing happens sends a comment now and then.
func TestStreamPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := store.New(memstore.New())
		key, err := access.Add(t.Context(), st, access.AddRequest{Role: access.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		s := server.New(st, server.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		if err := s.Follow(ctx); err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/v1/events/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key.Secret)
		rec, done := &recorder{head: http.Header{}}, make(chan struct{})
		go func() {
			defer close(done)
			s.Handler().ServeHTTP(rec, req)
		}()
		time.Sleep(50 * time.Second)
		cancel()
		<-done
		synctest.Wait()
		if n := strings.Count(rec.text.String(), ": ping\n\n"); n != 3 {
			t.Errorf("%d pings in 50 seconds: %q", n, rec.text.String())
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			s.Stop()
		}
	})
}
