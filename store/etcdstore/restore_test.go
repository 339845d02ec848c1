//go:build linux

package etcdstore_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/etcdstore"
)

// A cluster is put back to a snapshot, at the same addresses and with the same id,
// under handles that stay open. Whoever is the first to come, one that knows the
// later state, one that has slept since before the snapshot, or one that is new:
// no revision is given out twice. The same snapshot once more is another life.
func TestRestoredCluster(t *testing.T) {
	if !long.Asked() {
		t.Skip("builds etcd's own tool; set TASKLOCK_TORTURE=1")
	}
	for _, first := range []string{"new", "busy", "idle"} {
		t.Run(first, func(t *testing.T) {
			c := one(t)
			url := c.URL(newPrefix())
			handles := map[string]*etcdstore.Store{"idle": open(t, url), "busy": open(t, url)}
			given := map[int64]string{}
			take := func(s *etcdstore.Store, key string) (highest int64) {
				t.Helper()
				for i := range 30 {
					k := fmt.Sprintf("%s-%d", key, i)
					snap, err := s.Read(t.Context(), driver.Query{Keys: []string{k}})
					must(t, err)
					rev, err := s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: k}}, Writes: []driver.Write{put(k)}})
					must(t, err)
					if given[rev] != "" || snap.Rev > rev {
						t.Fatalf("%s at revision %d, which %q has; read at %d", k, rev, given[rev], snap.Rev)
					}
					given[rev], highest = k, rev
				}
				return highest
			}
			take(handles["idle"], "lock/a")
			take(handles["busy"], "lock/b")
			file := filepath.Join(t.TempDir(), "snapshot")
			must(t, c.Snapshot(file))
			highest := take(handles["busy"], "lock/c")
			must(t, c.Restore(file))
			if first == "new" {
				handles["new"] = open(t, url)
			}
			answers(t, handles[first])
			held := get(t, handles[first], "lock/a-0").Rev
			if given[held] != "" {
				t.Errorf("a record of the snapshot is at revision %d, as %s was", held, given[held])
			}
			for i, name := range []string{first, "idle", "busy"} {
				answers(t, handles[name])
				if took := take(handles[name], fmt.Sprintf("lock/d%d", i)); took <= highest {
					t.Errorf("%s: revision %d after %d", name, took, highest)
				}
			}
			must(t, c.Restore(file))
			answers(t, handles[first])
			if again := get(t, handles[first], "lock/a-0").Rev; again == held || given[again] != "" {
				t.Errorf("in two lives of one snapshot a record is at revision %d", again)
			}
			take(handles[first], "lock/e")
		})
	}
}
