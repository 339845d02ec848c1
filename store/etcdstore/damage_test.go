package etcdstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/etcdtest"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/etcdstore"
)

// What somebody else put below our prefix is damage: not absent, not free, and
// left as it is. The rest can be read, and doctor names the keys.
func TestForeignValues(t *testing.T) {
	c := one(t)
	cl := client(t, c)
	for i, value := range []string{"", "x", "{}", "{}\n", "{}\nx", "{}\n{}", "{}\n{\"at\":\"yesterday\"}", "{}\n{\"at\":\"2026-01-01T00:00:00Z\",\"ttl\":-1}", "\x00\xff\n\xff"} {
		prefix := newPrefix()
		s := open(t, c.URL(prefix))
		_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/good")}})
		must(t, err)
		foreign := "/" + prefix + "/record/lock/bad"
		_, err = cl.Put(t.Context(), foreign, value)
		must(t, err)
		_, err = s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "lock/"}}})
		if !errors.Is(err, driver.ErrDamaged) || !strings.Contains(err.Error(), foreign) {
			t.Errorf("value %d: %v", i, err)
		}
		_, err = s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: "lock/bad"}}, Writes: []driver.Write{put("lock/bad")}})
		if !errors.Is(err, driver.ErrConflict) {
			t.Errorf("value %d: taken for absent: %v", i, err)
		}
		if get(t, s, "lock/good").Rev == 0 {
			t.Errorf("value %d: the good record is gone", i)
		}
		r, err := etcdstore.Inspect(t.Context(), c.URL(prefix))
		if err != nil || len(r.Problems) != 1 {
			t.Errorf("value %d: doctor found %q, %v", i, r.Problems, err)
		}
	}
}

func TestFormat(t *testing.T) {
	c := one(t)
	cl := client(t, c)
	for _, tc := range []struct {
		value string // "": deleted
		want  error
	}{
		{"", driver.ErrDamaged},
		{"x", driver.ErrDamaged},
		{"{}", driver.ErrDamaged},
		{`{"format":1,"eras":[]}`, driver.ErrDamaged},
		{`{"format":2}`, driver.ErrNewer},
	} {
		prefix := newPrefix()
		s := open(t, c.URL(prefix))
		_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/a")}})
		must(t, err)
		if _, err = cl.Delete(t.Context(), "/"+prefix+"/format"); tc.value != "" {
			_, err = cl.Put(t.Context(), "/"+prefix+"/format", tc.value)
		}
		must(t, err)
		if _, err := etcdstore.Open(t.Context(), c.URL(prefix), &etcdstore.Options{Create: true}); !errors.Is(err, tc.want) {
			t.Errorf("%q: Open: %v", tc.value, err)
		}
		if _, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/a")}}); err == nil || errors.Is(err, driver.ErrConflict) {
			t.Errorf("%q: Commit: %v", tc.value, err)
		}
	}
	if _, err := etcdstore.Open(t.Context(), c.URL(newPrefix()), nil); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("no store: %v", err)
	}
}

// In a cluster that is not the one where the store was, etcd's revisions may be
// lower than those that were given out. Ours are above all of them, of old records too. A
// cluster that was restored where it was has the same id, and a log that is shorter
// than it was. Two that come from one snapshot have no revision in common.
func TestAnotherCluster(t *testing.T) {
	t.Run("id", func(t *testing.T) { anotherCluster(t, "cluster", "5eed") })
	t.Run("log", func(t *testing.T) { anotherCluster(t, "lead", 1_000_000) })
}

func anotherCluster(t *testing.T, field string, value any) {
	c := one(t)
	prefix := newPrefix()
	before := open(t, c.URL(prefix))
	old, err := before.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/old")}})
	must(t, err)
	snapshot := format(t, c, prefix)
	given := map[int64]bool{old: true}
	for life := range 2 {
		restored := maps.Clone(snapshot)
		restored[field] = value
		setFormat(t, c, prefix, restored)
		for i, s := range []*etcdstore.Store{open(t, c.URL(prefix)), before} {
			at := get(t, s, "lock/old").Rev
			if at < old+1<<32 || at > driver.MaxRevision || i == 0 && given[at] {
				t.Errorf("life %d: the old record was at %d and is at %d", life, old, at)
			}
			b := driver.Batch{Guards: []driver.Guard{{Key: "lock/old", Rev: old}, {Key: "lock/absent"}}, Writes: []driver.Write{put("lock/new")}}
			if _, err := s.Commit(t.Context(), b); !errors.Is(err, driver.ErrConflict) {
				t.Errorf("life %d: under the guard of the life before: %v", life, err)
			}
			b.Guards[0].Rev = at
			rev, err := s.Commit(t.Context(), b)
			must(t, err)
			if rev <= at || given[rev] || rev > driver.MaxRevision {
				t.Errorf("life %d: revision %d in another cluster, %d before", life, rev, old)
			}
			given[at], given[rev] = true, true
		}
	}
}

// pretend changes the format, as if all this came out of a backup.
func pretend(t *testing.T, c *etcdtest.Cluster, prefix, field string, value any) {
	t.Helper()
	f := format(t, c, prefix)
	f[field] = value
	setFormat(t, c, prefix, f)
}

func format(t *testing.T, c *etcdtest.Cluster, prefix string) map[string]any {
	t.Helper()
	resp, err := client(t, c).Get(t.Context(), "/"+prefix+"/format")
	must(t, err)
	var f map[string]any
	must(t, json.Unmarshal(resp.Kvs[0].Value, &f))
	return f
}

func setFormat(t *testing.T, c *etcdtest.Cluster, prefix string, f map[string]any) {
	t.Helper()
	b, err := json.Marshal(f)
	must(t, err)
	_, err = client(t, c).Put(t.Context(), "/"+prefix+"/format", string(b))
	must(t, err)
}

// A handle that slept while its cluster was put back to a backup knows no later
// revision, is not told that it has a new connection, and finds out nevertheless.
func TestRestoredWhileIdle(t *testing.T) {
	c := one(t)
	prefix := newPrefix()
	s := open(t, c.URL(prefix))
	rev, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/a")}})
	must(t, err)
	pretend(t, c, prefix, "lead", 1_000_000)
	c.Kill(0)
	must(t, c.Run(0))
	must(t, c.Ready())
	answers(t, s)
	_, err = s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: "lock/a", Rev: rev}}, Writes: []driver.Write{put("lock/b")}})
	if !errors.Is(err, driver.ErrConflict) {
		t.Errorf("under the guard of the life before: %v", err)
	}
	next, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/b")}})
	must(t, err)
	if next < rev+1<<32 || next > driver.MaxRevision {
		t.Errorf("revision %d after %d", next, rev)
	}
}

// answers waits until the store does so again: the first requests may still find
// the old connection.
func answers(t *testing.T, s *etcdstore.Store) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
		if err == nil {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
}

// doctor notices that nobody ever compacts, and that somebody has.
func TestNeverCompacted(t *testing.T) {
	c := one(t)
	cl := client(t, c)
	prefix := newPrefix()
	open(t, c.URL(prefix))
	warned := func() string {
		t.Helper()
		r, err := etcdstore.Inspect(t.Context(), c.URL(prefix))
		must(t, err)
		return fmt.Sprint(r.Warnings)
	}
	if w := warned(); strings.Contains(w, "compact") {
		t.Errorf("a young cluster: %s", w)
	}
	var last atomic.Int64
	var writers sync.WaitGroup
	for range 50 {
		writers.Go(func() {
			for last.Load() < 10_000 {
				resp, err := cl.Put(t.Context(), "foreign", "x")
				if err != nil {
					t.Error(err)
					return
				}
				last.Store(resp.Header.Revision)
			}
		})
	}
	writers.Wait()
	if w := warned(); !strings.Contains(w, "never compacted") {
		t.Errorf("10,000 revisions: %s", w)
	}
	_, err := cl.Compact(t.Context(), last.Load()-100)
	must(t, err)
	if w := warned(); strings.Contains(w, "compact") {
		t.Errorf("after a compaction: %s", w)
	}
}
