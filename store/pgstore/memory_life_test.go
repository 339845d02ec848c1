package pgstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

// Nothing that was seen counts in another life of the server, on another timeline,
// or once the revision is lower. An answer that was overtaken by a later one changes
// nothing.
func TestMemoryEndsWithTheLife(t *testing.T) {
	now, asked := time.Now(), host.Now()
	seen := view{rev: 10, now: now, life: 7, line: 1, asked: asked}
	for name, c := range map[string]struct {
		then view
		ends bool
	}{
		"the same life":       {view{11, now, 7, 1, asked}, false},
		"another life":        {view{11, now, 8, 1, asked}, true},
		"another timeline":    {view{11, now, 7, 2, asked}, true},
		"a lower revision":    {view{9, now.Add(time.Second), 7, 1, asked}, true},
		"an answer overtaken": {view{9, now, 7, 1, asked}, false},
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

// What was seen before the machine slept is old when it wakes: the clock that stands
// still meanwhile says otherwise.
func TestMemoryEndsWithSleep(t *testing.T) {
	asleep := host.Now()
	asleep.Wall -= int64(time.Hour)
	for _, c := range []struct {
		asked host.Moment
		ok    bool
	}{{host.Now(), true}, {asleep, false}} {
		var m memory
		v := view{rev: 10, now: time.Now(), life: 7, line: 1, asked: c.asked}
		m.heard(v)
		m.note(driver.Record{Key: "lock/a", Rev: 10}, v)
		if _, ok := m.recall(driver.Query{Keys: []string{"lock/a"}, Since: 1, Guarded: true}); ok != c.ok {
			t.Errorf("asked at %v, now %v: it remembers: %t", c.asked, host.Now(), ok)
		}
		if _, ok := m.recall(driver.Query{Keys: []string{"lease/new"}, New: []string{"lease/new"}, Since: 1, Guarded: true}); ok != c.ok {
			t.Errorf("asked at %v, now %v: it knows what time it is: %t", c.asked, host.Now(), ok)
		}
	}
}

// A record that is used again and again stays in memory, however many others come.
func TestMemoryKeepsWhatIsUsed(t *testing.T) {
	var m memory
	v := view{rev: 10, now: time.Now(), life: 7, line: 1, asked: host.Now()}
	m.heard(v)
	m.note(driver.Record{Key: "lock/a", Rev: 10}, v)
	for i := range 10 * maxMemory {
		m.note(driver.Record{Key: fmt.Sprint("event/", i), Rev: 10}, v)
		m.unchanged(driver.Guard{Key: "lock/a", Rev: 10}, v)
	}
	if _, ok := m.find("lock/a"); !ok || len(m.seen)+len(m.before) > maxMemory {
		t.Errorf("it is there: %t, among %d", ok, len(m.seen)+len(m.before))
	}
}
