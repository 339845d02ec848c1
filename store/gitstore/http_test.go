package gitstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// forge serves a bare repository over smart HTTP, as git itself does it.
type forge struct {
	*httptest.Server
	dir     string
	backend http.Handler

	mu     sync.Mutex
	before func(w http.ResponseWriter, r *http.Request) (answered bool)
	after  func() (cut bool)
}

// rule changes how the forge behaves: before may answer a request itself;
// after sees that a push was carried out and may cut its answer off.
func (f *forge) rule(before func(w http.ResponseWriter, r *http.Request) bool, after func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *forge) rules() (before func(w http.ResponseWriter, r *http.Request) bool, after func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.before, f.after
}

func newForge(t testing.TB) *forge {
	t.Helper()
	dir := newRemote(t)
	git(t, dir, "config", "http.receivepack", "true")
	f := &forge{dir: dir}
	backend := &cgi.Handler{
		Path:       filepath.Join(git(t, "", "--exec-path"), "git-http-backend"),
		Env:        []string{"GIT_PROJECT_ROOT=" + filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1"},
		InheritEnv: []string{"PATH", "HOME"}, Stderr: os.Stderr,
	}
	f.backend = backend
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before, after := f.rules()
		if before != nil && before(w, r) {
			return
		}
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			backend.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder() // the server has done all it will do
		backend.ServeHTTP(answer, r)
		if after != nil && after() {
			cut(w)
			return
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(f.Close)
	return f
}

func cut(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func (f *forge) url() string { return f.URL + "/" + filepath.Base(f.dir) }

func TestHTTP(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	a, b := open(t, f.url()), open(t, f.url())
	rev := commit(t, a, driver.Batch{Writes: put("lock/a", `{"n":1}`).Writes, Note: "acquired a by me"})
	if r := get(t, b, "lock/a"); r.Rev != rev || string(r.Value) != `{"n":1}` {
		t.Errorf("the other read %v", r)
	}
	_, err := b.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: "lock/a", Rev: 0}}, Writes: put("lock/a", `{"n":2}`).Writes})
	if !errors.Is(err, driver.ErrConflict) {
		t.Errorf("a broken guard: %v", err)
	}
	if subject := git(t, f.dir, "log", "-1", "--format=%s", "tasklock"); subject != "acquired a by me" {
		t.Errorf("the message says %q", subject)
	}
}

// A push whose answer is lost after the server accepted it has committed.
func TestAnswerCut(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	s, other := open(t, f.url()), open(t, f.url())
	commits := func() string { return git(t, f.dir, "rev-list", "--count", "tasklock") }
	var cuts atomic.Int64
	f.rule(nil, func() bool { return cuts.Add(1) == 1 }) // curl may send the same push again
	rev := commit(t, s, driver.Batch{Guards: []driver.Guard{{Key: "lock/a"}}, Writes: put("lock/a", `{"by":"me"}`).Writes})
	if r := get(t, s, "lock/a"); r.Rev != rev || string(r.Value) != `{"by":"me"}` {
		t.Errorf("at %d: %v", rev, r)
	}
	if n := commits(); n != "2" || cuts.Load() == 0 {
		t.Errorf("%s commits after %d pushes", n, cuts.Load())
	}

	// The same while somebody else has built upon it.
	f.rule(nil, func() bool {
		f.rule(nil, nil)
		commit(t, other, put("lock/other", `{}`))
		return true
	})
	rev = commit(t, s, driver.Batch{Guards: []driver.Guard{{Key: "lock/b"}}, Writes: put("lock/b", `{"by":"me"}`).Writes})
	if r := get(t, other, "lock/b"); r.Rev != rev {
		t.Errorf("at %d: %v", rev, r)
	}
	if n := commits(); n != "4" {
		t.Errorf("%s commits", n)
	}
}

// Requests and answers are lost all the time: every increment counts once.
func TestManyCuts(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	f := newForge(t)
	clients := []*gitstore.Store{open(t, f.url()), open(t, f.url())}
	var n, lost atomic.Int64
	f.rule(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") && n.Add(1)%4 == 0 {
			lost.Add(1)
			cut(w)
			return true
		}
		return false
	}, func() bool { return n.Add(1)%3 == 0 && lost.Add(1) > 0 })
	rounds := 5
	if torture() {
		rounds = 60
	}
	var wg sync.WaitGroup
	for i, s := range clients {
		wg.Go(func() {
			for r := range rounds {
				add(t, s, fmt.Sprintf("%d-%d", i, r))
			}
		})
	}
	wg.Wait()
	f.rule(nil, nil)
	snap, err := open(t, f.url()).Read(t.Context(), driver.Query{Keys: []string{"counter/a"}, Ranges: []driver.Range{{Prefix: "nonce/"}}})
	must(t, err)
	if want := fmt.Sprintf(`{"n":%d}`, 2*rounds); string(snap.Records[0].Value) != want || len(snap.Records) != 2*rounds+1 {
		t.Errorf("the counter is %s, want %s, with %d receipts", snap.Records[0].Value, want, len(snap.Records)-1)
	}
	if lost.Load() == 0 {
		t.Error("nothing was lost: the test has shown nothing")
	}
}

// add adds one to the counter under a nonce, once, whatever happens.
func add(t testing.TB, s driver.Store, nonce string) {
	for range 100 {
		snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"nonce/" + nonce, "counter/a"}})
		if err != nil {
			continue
		}
		n, rev := 0, int64(0)
		for _, r := range snap.Records {
			if r.Key != "counter/a" {
				return
			}
			rev = r.Rev
			if _, err := fmt.Sscanf(string(r.Value), `{"n":%d}`, &n); err != nil {
				t.Error(err)
			}
		}
		value := []byte(fmt.Sprintf(`{"n":%d}`, n+1))
		_, err = s.Commit(t.Context(), driver.Batch{
			Guards: []driver.Guard{{Key: "counter/a", Rev: rev}, {Key: "nonce/" + nonce}},
			Writes: []driver.Write{{Key: "counter/a", Value: value}, {Key: "nonce/" + nonce, Value: value}},
		})
		switch {
		case err == nil:
			return
		case driver.Refusal(err):
			t.Error(err)
			return
		}
	}
	t.Errorf("%s was never done", nonce)
}

// Denied is an answer, down is unreachable; neither is "free".
func TestHTTPRefusals(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	s := open(t, f.url())
	commit(t, s, put("lock/a", `{"n":1}`))
	tip := git(t, f.dir, "rev-parse", "tasklock")
	guarded := driver.Batch{Guards: []driver.Guard{{Key: "lock/a", Rev: 2}}, Writes: put("lock/a", `{"n":2}`).Writes}
	status := func(code int, only string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.String(), only) {
				return false
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "no \x1b[31mentry", code)
			return true
		}
	}
	for _, c := range []struct {
		name         string
		before       func(http.ResponseWriter, *http.Request) bool
		read, commit error // nil: unreachable
	}{
		{"no credentials", status(401, ""), driver.ErrDenied, driver.ErrDenied},
		{"forbidden", status(403, ""), driver.ErrDenied, driver.ErrDenied},
		{"read only", status(403, "git-receive-pack"), nil, driver.ErrDenied},
		{"broken", status(500, ""), nil, nil},
		{"gone", status(404, ""), nil, nil},
		{"no answer", func(w http.ResponseWriter, _ *http.Request) bool { cut(w); return true }, nil, nil},
	} {
		f.rule(c.before, nil)
		_, readErr := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
		_, commitErr := s.Commit(t.Context(), guarded)
		if c.name == "read only" && readErr != nil || c.name != "read only" && !sameClass(readErr, c.read) {
			t.Errorf("%s: Read: %v", c.name, readErr)
		}
		if !sameClass(commitErr, c.commit) || strings.Contains(commitErr.Error(), "\x1b") {
			t.Errorf("%s: Commit: %q", c.name, commitErr)
		}
		if _, err := tryOpen(t, f.url()); c.name != "read only" && !sameClass(err, c.read) {
			t.Errorf("%s: Open: %v", c.name, err)
		}
		snap, at, err := s.Cached(t.Context(), driver.Query{Keys: []string{"lock/a"}})
		if err != nil || len(snap.Records) != 1 || at.IsZero() || time.Since(at) > time.Hour {
			t.Errorf("%s: Cached: %v, as of %v, %v", c.name, snap, at, err)
		}
	}
	f.rule(nil, nil)
	if now := git(t, f.dir, "rev-parse", "tasklock"); now != tip {
		t.Errorf("the branch went from %s to %s", tip, now)
	}
	commit(t, s, guarded)
}

// sameClass: want nil means an error that is not an answer at all.
func sameClass(err, want error) bool {
	if want == nil {
		return err != nil && !driver.Refusal(err) && !errors.Is(err, driver.ErrConflict)
	}
	return errors.Is(err, want)
}

// basicAuth lets in who has the password.
func basicAuth(user, password string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if u, p, ok := r.BasicAuth(); ok && u == user && p == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		http.Error(w, "no", http.StatusUnauthorized)
		return true
	}
}

// The user's own credential helper is asked, and what it says is not shown.
func TestCredentials(t *testing.T) {
	f := newForge(t)
	var given atomic.Value
	f.rule(func(w http.ResponseWriter, r *http.Request) bool {
		user, password, ok := r.BasicAuth()
		given.Store(user + ":" + password)
		if ok && password == "s3cret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		http.Error(w, "no", http.StatusUnauthorized)
		return true
	}, nil)
	home := t.TempDir()
	write(t, filepath.Join(home, ".gitconfig"), "[credential]\n\thelper = \"!f() { echo username=me; echo password=s3cret; }; f\"\n")
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	commit(t, open(t, f.url()), put("lock/a", `{}`))
	if got := given.Load(); got != "me:s3cret" {
		t.Errorf("the server was given %q", got)
	}

	write(t, filepath.Join(home, ".gitconfig"), "")
	with := strings.Replace(f.url(), "http://", "http://token:wr0ngpass@", 1)
	_, err := tryOpen(t, with)
	if !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "wr0ngpass") || strings.Contains(err.Error(), "token:") {
		t.Errorf("wrong password: %v", err)
	}
	good := strings.Replace(f.url(), "http://", "http://me:s3cret@", 1)
	words := recordGit(t)
	commit(t, open(t, good), put("lock/b", `{}`))
	if seen := words(); !strings.Contains(seen, f.URL) || strings.Contains(seen, "s3cret") || strings.Contains(seen, "me@") {
		t.Errorf("the list of processes shows the password, or nothing:\n%s", seen)
	}

	// What a CI system left in the repository for this URL.
	tree := filepath.Join(t.TempDir(), "tree")
	git(t, "", "init", "--quiet", tree)
	git(t, tree, "remote", "add", "origin", f.url())
	git(t, tree, "config", "http."+f.URL+"/.extraheader", "Authorization: Basic bWU6czNjcmV0")
	commit(t, open(t, "origin", func(o *gitstore.Options) { o.Dir = tree }), put("lock/c", `{}`))
}

// recordGit puts a program before git that writes down the words which git is
// called with: everybody on the machine can see those.
func recordGit(t *testing.T) (words func() string) {
	t.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	write(t, filepath.Join(dir, "git"), "#!/bin/sh\nprintf '%s\\n' \"$*\" >>'"+log+"'\nexec '"+real+"' \"$@\"\n")
	if err := os.Chmod(filepath.Join(dir, "git"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// A server whose host key has changed is a denial and no outage, although ssh
// says so only after a long warning.
func TestChangedHostKey(t *testing.T) {
	warning := filepath.Join(t.TempDir(), "warning")
	write(t, warning, strings.Repeat("@", 59)+`
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
`+strings.Repeat("@", 59)+`
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:x.
Please contact your system administrator.
Host key for example.invalid has changed and you have requested strict checking.
Host key verification failed.
`)
	t.Setenv("GIT_SSH_COMMAND", fmt.Sprintf("f() { cat '%s' >&2; exit 255; }; f", filepath.ToSlash(warning)))
	t.Setenv("GIT_SSH_VARIANT", "simple")
	_, err := tryOpen(t, "ssh://example.invalid/x.git")
	if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "HAS CHANGED") || !strings.Contains(err.Error(), "verification failed") {
		t.Errorf("Open: %v", err)
	}
}

// A server that never answers, or answers one byte at a time, costs the time
// it was given and not more.
func TestTimeouts(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	f := newForge(t)
	s := open(t, f.url())
	commit(t, s, put("lock/a", `{}`))
	gitstore.LimitTime(s, 700*time.Millisecond)
	stop := make(chan struct{})
	defer close(stop)
	for name, slow := range map[string]func(w http.ResponseWriter){
		"silent": func(http.ResponseWriter) { <-stop },
		"endless": func(w http.ResponseWriter) {
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
					if _, err := w.Write([]byte("0")); err != nil {
						return
					}
					_ = http.NewResponseController(w).Flush()
				}
			}
		},
	} {
		f.rule(func(w http.ResponseWriter, _ *http.Request) bool { slow(w); return true }, nil)
		start := time.Now()
		_, err := s.Read(t.Context(), driver.Query{})
		if !sameClass(err, nil) || time.Since(start) > time.Minute {
			t.Errorf("%s: Read after %v: %v", name, time.Since(start), err)
		}
		start = time.Now()
		_, err = s.Commit(t.Context(), put("lock/b", `{}`))
		if !sameClass(err, nil) || time.Since(start) > time.Minute {
			t.Errorf("%s: Commit after %v: %v", name, time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start = time.Now()
		_, err = s.Commit(ctx, put("lock/b", `{}`))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Minute {
			t.Errorf("%s: Commit with a deadline after %v: %v", name, time.Since(start), err)
		}
		cancel()
	}
}

// A server that sends without end is cut off.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	s := open(t, f.url())
	gitstore.LimitFetch(s, 1<<20)
	noise := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	edit(t, f.dir, func(dir string) { write(t, filepath.Join(dir, "noise"), string(noise)) })
	f.rule(func(w http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method != http.MethodPost || !bytes.Contains(body, []byte("want ")) {
			return false
		}
		answer := httptest.NewRecorder()
		f.backend.ServeHTTP(answer, r)
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		for all := answer.Body; all.Len() > 0; time.Sleep(50 * time.Millisecond) {
			if _, err := w.Write(all.Next(128 << 10)); err != nil {
				break
			}
			_ = http.NewResponseController(w).Flush()
		}
		return true
	}, nil)
	_, err := s.Read(t.Context(), driver.Query{})
	if !sameClass(err, nil) || !strings.Contains(err.Error(), "more than a store can hold") {
		t.Errorf("Read: %v", err)
	}
}
