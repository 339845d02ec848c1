package filestore_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
)

// Ten thousand records are many and not too many, listed whole or by the ends.
func TestManyRecords(t *testing.T) {
	long.NotShort(t) // writes ten thousand files
	s := open(t, filepath.Join(t.TempDir(), "store"))
	const n = 10_000
	for i := 0; i < n; i += 1000 {
		var b driver.Batch
		for k := i; k < i+1000; k++ {
			b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("task/%05d", k), Value: []byte(`{"title":"something to do"}`)})
		}
		_, err := s.Commit(t.Context(), b)
		must(t, err)
	}
	for _, limit := range []int{0, 32, -1} {
		start := time.Now()
		snap, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "task/", Limit: limit}}})
		must(t, err)
		want := map[int]int{0: n, 32: 32, -1: 1}[limit]
		if len(snap.Records) != want {
			t.Errorf("limit %d: %d records", limit, len(snap.Records))
		}
		t.Logf("limit %d: %v", limit, time.Since(start))
	}
}
