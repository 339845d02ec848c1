//go:build linux

package torture

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestAnswerIsCut: the server accepts a push and its answer never arrives. The
// command finds out that it holds the lock, gave it back, has completed the
// task: it says so, and has done it once.
func TestAnswerIsCut(t *testing.T) {
	var cut atomic.Int64 // answers still to be cut
	f := newField(t, gitBackend("git-cut", brief{}, way{url: func(t testing.TB, remote string) string {
		return serveGit(t, remote, cutting(gitServer(t, remote), &cut))
	}}), 0)
	if code, out := f.tasklock("tasks", "add", "one", "--id", "k"); code != 0 {
		t.Fatal(out)
	}
	commits := func() (n int) {
		_, _ = fmt.Sscan(git(t, filepath.Join(f.dir, "remote.git"), "rev-list", "--count", "tasklock"), &n)
		return n
	}
	var token int64
	for _, step := range []string{"acquire other", "heartbeat other", "release other", "tasks claim k", "tasks complete k"} {
		before := commits()
		cut.Store(1)
		code, out := f.tasklock(append(strings.Fields(step), "--owner", "a")...)
		if code != 0 || cut.Load() > 0 {
			t.Fatalf("%s: exit %d, %s", step, code, out)
		}
		if n := commits() - before; n != 1 {
			t.Errorf("%s: %d commits", step, n)
		}
		var r struct{ Data struct{ Token int64 } }
		must(t, json.Unmarshal([]byte(out), &r))
		if strings.HasPrefix(step, "acquire") || strings.HasSuffix(step, "claim k") {
			if code, out := f.tasklock("check", strings.Fields(step)[len(strings.Fields(step))-1], "--token", fmt.Sprint(r.Data.Token)); code != 0 || r.Data.Token <= token {
				t.Errorf("%s: token %d after %d, exit %d, %s", step, r.Data.Token, token, code, out)
			}
			token = r.Data.Token
		}
	}
	for _, w := range f.wrong(t) {
		t.Error(w)
	}
}

// cutting carries out every push, and closes the connection instead of
// answering as often as n says.
func cutting(server http.Handler, n *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			server.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, r)
		if n.Load() > 0 {
			n.Add(-1)
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
				return
			}
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}
