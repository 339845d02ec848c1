package pgstore

import (
	"testing"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// Nothing that was seen counts in another life of the server, on another timeline,
// or once the revision is lower. An answer that was overtaken by a later one changes
// nothing.
func TestMemoryEndsWithTheLife(t *testing.T) {
	now := time.Now()
	seen := view{rev: 10, now: now, life: 7, line: 1}
	for name, c := range map[string]struct {
		then view
		ends bool
	}{
		"the same life":       {view{11, now, 7, 1}, false},
		"another life":        {view{11, now, 8, 1}, true},
		"another timeline":    {view{11, now, 7, 2}, true},
		"a lower revision":    {view{9, now.Add(time.Second), 7, 1}, true},
		"an answer overtaken": {view{9, now, 7, 1}, false},
	} {
		var m memory
		m.heard(seen)
		m.note(driver.Record{Key: "lock/a", Rev: 10}, seen)
		m.heard(c.then)
		if _, ok := m.recall(driver.Query{Keys: []string{"lock/a"}, Since: 1, Guarded: true}); ok == c.ends {
			t.Errorf("%s: it remembers: %t", name, ok)
		}
		m.note(driver.Record{Key: "lock/b", Rev: 10}, seen) // an answer of before comes late
		if _, ok := m.recall(driver.Query{Keys: []string{"lock/b"}, Since: 1, Guarded: true}); ok && (c.then.life != 7 || c.then.line != 1) {
			t.Errorf("%s: it remembers what came from the life before", name)
		}
	}
}
