package gitstore_test

import (
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/gitstore"
)

// A mirror answers what is read from a forge, as it was when it was last brought
// up to date; pushes go to the forge itself.
type mirror struct {
	f      *forge
	dir    string
	asked  atomic.Int64
	behind atomic.Int64 // how many more times it is asked before it catches up by itself; 0: never
}

func newMirror(t testing.TB, f *forge) *mirror {
	m := &mirror{f: f, dir: filepath.Join(t.TempDir(), filepath.Base(f.dir))}
	git(t, "", "clone", "--quiet", "--mirror", f.dir, m.dir)
	m.serve(t)
	return m
}

func (m *mirror) serve(t testing.TB) {
	reads := *m.f.backend.(*cgi.Handler)
	reads.Env = []string{"GIT_PROJECT_ROOT=" + filepath.Dir(m.dir), "GIT_HTTP_EXPORT_ALL=1"}
	m.f.rule(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.String(), "git-receive-pack") {
			return false
		}
		if m.asked.Add(1); m.behind.Load() > 0 && m.behind.Add(-1) == 0 {
			m.catchUp(t)
		}
		reads.ServeHTTP(w, r)
		return true
	}, nil)
}

func (m *mirror) catchUp(t testing.TB) { git(t, m.dir, "fetch", "--quiet") }

// An answer that is older than what was seen is asked for again. If it stays so,
// the server is out of reach: it is not damage, and nobody goes back.
func TestLaggingMirror(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	f := newForge(t)
	s := open(t, f.url())
	commit(t, s, put("lock/a", `{"n":1}`))
	m := newMirror(t, f)
	commit(t, s, put("lock/a", `{"n":2}`))

	before := m.asked.Load()
	_, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
	if !sameClass(err, nil) || !strings.Contains(err.Error(), "lags") || m.asked.Load()-before < 4 {
		t.Errorf("Read after %d questions: %v", m.asked.Load()-before, err)
	}
	if _, err := s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: "lock/a", Rev: 1}}}); !sameClass(err, nil) {
		t.Errorf("a batch of guards alone: %v", err)
	}
	commit(t, s, put("lock/a", `{"n":3}`)) // a push reaches the forge itself
	m.behind.Store(3)
	if r := get(t, s, "lock/a"); string(r.Value) != `{"n":3}` {
		t.Errorf("the mirror caught up, and %v was read", r)
	}

	// Others are ahead, and the mirror does not show it.
	commit(t, open(t, f.dir), put("lock/b", `{}`))
	m.behind.Store(4)
	commit(t, s, put("lock/c", `{}`))
	m.catchUp(t)
	for _, key := range []string{"lock/b", "lock/c"} {
		if get(t, s, key).Rev == 0 {
			t.Errorf("%s is gone", key)
		}
	}
	commit(t, open(t, f.dir), put("lock/b", `{}`))
	if _, err := s.Commit(t.Context(), put("lock/d", `{}`)); !sameClass(err, nil) || !errors.Is(err, driver.ErrUntouched) {
		t.Errorf("every push comes too late, and why cannot be read: %v", err)
	}
}

// A mirror may show the branch as it was before its history was cut, or not
// have it yet.
func TestMirrorFromBefore(t *testing.T) {
	long.NotShort(t)
	t.Parallel()
	f := newForge(t)
	empty := newMirror(t, f)
	s := open(t, f.url())
	commit(t, s, put("lock/a", `{"n":1}`))
	empty.behind.Store(3)
	if r := get(t, s, "lock/a"); string(r.Value) != `{"n":1}` {
		t.Errorf("read %v", r)
	}
	old := newMirror(t, f)
	f.rule(nil, nil)
	commit(t, s, put("lock/a", `{"n":2}`))
	must(t, open(t, f.dir).Compact(t.Context()))
	get(t, s, "lock/a")
	commit(t, s, put("lock/a", `{"n":3}`))
	old.serve(t)
	if _, err := s.Read(t.Context(), driver.Query{}); !sameClass(err, nil) {
		t.Errorf("Read: %v", err)
	}
}

// One process hears that there is no branch while another one of the machine
// makes it: it was not deleted.
func TestMadeMeanwhile(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	cache := func(o *gitstore.Options) { o.Cache = filepath.Join(filepath.Dir(f.dir), "shared") }
	f.rule(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost { // what follows asks for the branches
			return false
		}
		f.rule(nil, nil)
		answer := httptest.NewRecorder()
		f.backend.ServeHTTP(answer, r)
		open(t, f.url(), cache)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		_, _ = w.Write(answer.Body.Bytes())
		return true
	}, nil)
	s, err := tryOpen(t, f.url(), cache)
	must(t, err)
	commit(t, s, put("lock/a", `{}`))
}
