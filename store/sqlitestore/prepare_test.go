package sqlitestore

import (
	"fmt"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/tasklock/tasklock/store/driver"
)

// A range is read by a statement that SQLite prepares once. With a bare parameter
// after LIMIT it would prepare it again for each other value: the planner looks at
// the value of such a parameter.
func TestRangesArePreparedOnce(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "tasklock.db"), &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 50 {
		if _, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: fmt.Sprintf("lock/%02d", i), Value: []byte(`{}`)}}}); err != nil {
			t.Fatal(err)
		}
	}
	err = s.conns.read(t.Context(), func(c conn) error {
		prepared := 0 // SQLite asks while it prepares a statement
		count := sqlite.AuthorizeFunc(func(sqlite.Action) sqlite.AuthResult { prepared++; return sqlite.AuthResultOK })
		if err := c.SetAuthorizer(count); err != nil {
			return err
		}
		defer c.SetAuthorizer(nil)
		for _, prefix := range []string{"lock/", ""} {
			for _, limits := range [][]int{{0, 1, 7, 1000, 0, 3}, {-1, -7, -1000, -3}} {
				for i, n := range limits {
					before, r := prepared, reading{ctx: t.Context(), store: s, conn: c}
					if err := c.snapshot(func() error { return r.scan(driver.Range{Prefix: prefix, Limit: n}) }); err != nil {
						return err
					}
					if i == 0 && prepared == before {
						t.Error("the first use prepared nothing")
					}
					if i > 0 && prepared != before {
						t.Errorf("%q, %d: prepared again", prefix, n)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
