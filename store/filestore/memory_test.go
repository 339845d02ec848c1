package filestore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/filestore"
)

// What a process remembers of a record is what others have made of it since,
// however often the journal starts over.
func TestMemoryFollows(t *testing.T) {
	for _, limit := range []int64{1 << 20, 2000} {
		dir := place(t)
		a, b := open(t, dir), open(t, dir)
		a.SetLimit(limit)
		b.SetLimit(limit)
		for i := range 40 {
			key := fmt.Sprint("lock/", i%3)
			rev, err := a.Commit(t.Context(), put(key, fmt.Sprintf(`{"n":%d}`, i)))
			must(t, err)
			if i%5 == 4 {
				rev, err = a.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: key}}})
				must(t, err)
			}
			for _, s := range []*filestore.Store{b, a} {
				snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/0", key}, Since: 1})
				must(t, err)
				at := int64(0)
				for _, r := range snap.Records {
					if r.Key == key {
						at = r.Rev
					}
				}
				if want := rev; snap.Rev == rev && at != want && i%5 != 4 || i%5 == 4 && snap.Rev == rev && at != 0 {
					t.Fatalf("limit %d, step %d: %s is at %d, written at %d", limit, i, key, at, rev)
				}
			}
			stale := driver.Batch{Guards: []driver.Guard{{Key: key, Rev: rev - 1}}, Writes: put("lock/z", `{}`).Writes}
			if _, err := b.Commit(t.Context(), stale); !errors.Is(err, driver.ErrConflict) {
				t.Fatalf("limit %d, step %d: committed on what was written over: %v", limit, i, err)
			}
		}
	}
}

// The next reader does not find a record whose file a person removed, in any
// process.
func TestRemovedByHand(t *testing.T) {
	dir := place(t)
	s := open(t, dir)
	_, err := s.Commit(t.Context(), put("lock/a", `{"n":1}`))
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, filestore.FileOf("lock/a"))))
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
	must(t, err)
	if len(snap.Records) > 0 {
		t.Errorf("still there: %v", snap.Records)
	}
	free := driver.Batch{Guards: []driver.Guard{{Key: "lock/a"}}, Writes: put("lock/a", `{"n":2}`).Writes}
	if _, err := s.Commit(t.Context(), free); err != nil {
		t.Errorf("after reading that it is gone: %v", err)
	}
}
