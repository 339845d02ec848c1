package driver_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

func ask(keys ...string) driver.Query { return driver.Query{Keys: keys, Since: 1, Guess: true} }

func wrote(key, value string) driver.Batch {
	return driver.Batch{Writes: []driver.Write{{Key: key, Value: []byte(value)}}}
}

// seen is a memory that has read lock/a, two seconds old, and that lock/b is absent.
func seen() *driver.Memory {
	var m driver.Memory
	now := time.Unix(1000, 0)
	m.Read([]string{"lock/a", "lock/b"}, driver.Snapshot{Rev: 7, Now: now, Records: []driver.Record{
		{Key: "lock/a", Rev: 5, Time: now.Add(-2 * time.Second), Value: []byte(`{"n":1}`)},
	}})
	return &m
}

// What was read and written is remembered for some seconds, by the store's clock,
// and never looks older than it is.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := seen()
		time.Sleep(1600 * time.Millisecond)
		m.Committed(wrote("lock/b", `{"n":2}`), 9)
		time.Sleep(1600 * time.Millisecond)
		got, ok := m.Recall(ask("lock/b", "lock/a"))
		if !ok || !got.Old || got.Rev != 7 || len(got.Records) != 2 || !got.Now.Equal(time.Unix(1003, 2e8)) {
			t.Fatalf("recalled %v, %+v", ok, got)
		}
		b, a := got.Records[0], got.Records[1]
		if age := got.Now.Sub(a.Time); a.Rev != 5 || string(a.Value) != `{"n":1}` || age != 5*time.Second {
			t.Errorf("read: %s at %d, %v old", a.Value, a.Rev, age)
		}
		if age := got.Now.Sub(b.Time); b.Rev != 9 || string(b.Value) != `{"n":2}` || age != 1500*time.Millisecond {
			t.Errorf("written: %s at %d, %v old", b.Value, b.Rev, age)
		}
		copy(a.Value, "scribble")
		if got, _ := m.Recall(ask("lock/a")); string(got.Records[0].Value) != `{"n":1}` {
			t.Error("the caller can change what is remembered")
		}
		time.Sleep(2 * time.Second)
		if _, ok := m.Recall(ask("lock/b")); ok {
			t.Error("answered though the store's clock is not known any more")
		}
	})
}

// What cannot be answered is not answered.
func TestMemoryKnowsItsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		q    driver.Query
		then func(*driver.Memory)
		ok   bool
	}{
		"known":            {q: ask("lock/a", "lock/b"), ok: true},
		"never seen":       {q: ask("lock/a", "lock/c")},
		"made up":          {q: driver.Query{Keys: []string{"lock/a", "lock/c"}, Since: 1, Guess: true, New: []string{"lock/c"}}, ok: true},
		"no guess":         {q: driver.Query{Keys: []string{"lock/a"}, Since: 1}},
		"range":            {q: driver.Query{Keys: []string{"lock/a"}, Ranges: []driver.Range{{Prefix: "lock/"}}, Since: 1, Guess: true}},
		"later than known": {q: driver.Query{Keys: []string{"lock/a"}, Since: 8, Guess: true}},
		"refused":          {q: ask("lock/a"), then: func(m *driver.Memory) { m.Forget([]driver.Guard{{Key: "lock/a", Rev: 5}}) }},
		"guarded since": {
			q: driver.Query{Keys: []string{"lock/a"}, Since: 8, Guess: true}, ok: true,
			then: func(m *driver.Memory) { m.Committed(driver.Batch{Guards: []driver.Guard{{Key: "lock/a", Rev: 5}}}, 8) },
		},
		"guarded otherwise": {
			q:    driver.Query{Keys: []string{"lock/a"}, Since: 8, Guess: true},
			then: func(m *driver.Memory) { m.Committed(driver.Batch{Guards: []driver.Guard{{Key: "lock/a", Rev: 4}}}, 8) },
		},
		"near its end": {q: ask("lock/a"), then: func(m *driver.Memory) {
			b := wrote("lock/a", `{}`)
			b.Writes[0].TTL = time.Second
			m.Committed(b, 8)
			time.Sleep(950 * time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := seen()
				if c.then != nil {
					c.then(m)
				}
				if got, ok := m.Recall(c.q); ok != c.ok {
					t.Errorf("answered: %v, %+v", ok, got)
				}
			})
		})
	}
}

// What others change as well is not guessed for some seconds, whoever wrote it
// last; what a refused commit was guarded by besides is, once it was read again.
func TestMemoryOfWhatOthersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := seen()
		m.Forget([]driver.Guard{{Key: "lock/a", Rev: 5}, {Key: "lock/b"}})
		if _, ok := m.Recall(ask("lock/b")); ok {
			t.Error("guessed what a refused commit was guarded by")
		}
		read := driver.Snapshot{Rev: 9, Now: time.Unix(1001, 0), Records: []driver.Record{{Key: "lock/a", Rev: 8, Value: []byte(`{}`)}}}
		m.Read([]string{"lock/a", "lock/b"}, read)
		if _, ok := m.Recall(ask("lock/b")); !ok {
			t.Error("what was still the same is not guessed any more")
		}
		m.Committed(wrote("lock/a", `{"n":4}`), 10)
		if _, ok := m.Recall(ask("lock/a")); ok {
			t.Error("guessed what others change")
		}
		time.Sleep(6 * time.Second)
		read.Rev, read.Records[0].Rev = 11, 10
		m.Read([]string{"lock/a"}, read)
		if _, ok := m.Recall(ask("lock/a")); !ok {
			t.Error("others have not changed it for long, and it is not guessed")
		}
	})
}

// An answer that is overtaken by a later one changes nothing, and what was seen
// long ago makes room.
func TestMemoryKeepsTheLatest(t *testing.T) {
	m := seen()
	m.Committed(wrote("lock/a", `{"n":3}`), 6)
	if got, _ := m.Recall(ask("lock/a")); got.Records[0].Rev != 5 {
		t.Errorf("a commit at 6 replaced what was read at 7: %+v", got)
	}
	for i := range 2000 {
		m.Committed(wrote(fmt.Sprint("event/", i), `{}`), int64(10+i))
	}
	if _, ok := m.Recall(ask("event/1999")); !ok {
		t.Error("the last is forgotten")
	}
	if _, ok := m.Recall(ask("lock/a")); ok {
		t.Error("nothing is ever forgotten")
	}
}
