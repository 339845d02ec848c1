package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

var refusalCases = []testCase{
	{name: "too large", run: tooLarge},
	{name: "bad keys", run: badKeys},
	{name: "record written twice in one batch", run: writtenTwice},
	{name: "cancelled before the call", run: cancelledBefore},
}

// refused commits a batch that must not be accepted, and requires that the
// store is as it was and works on.
func refused(t *suite, s driver.Store, what string, b driver.Batch) error {
	t.Helper()
	before := t.read(s, driver.Query{Ranges: []driver.Range{{}}})
	_, err := s.Commit(t.ctx, b)
	if err == nil || errors.Is(err, driver.ErrConflict) {
		t.Fatalf("%s: error %v, want a refusal", what, err)
	}
	after := t.read(s, driver.Query{Ranges: []driver.Range{{}}})
	if after.Rev != before.Rev {
		t.Fatalf("%s: refused, yet the revision went from %d to %d", what, before.Rev, after.Rev)
	}
	t.wantKeys(what, after.Records, keysOf(before.Records)...)
	t.holds(s)
	return err
}

func tooLarge(t *suite) {
	s := t.open()
	small := put("task/small", `{}`)
	many := make([]driver.Write, driver.MaxWrites+1)
	for i := range many {
		many[i] = put(fmt.Sprintf("task/%d", i), `{}`)
	}
	var heavy []driver.Write
	for i := range driver.MaxBatch/driver.MaxValue + 1 {
		heavy = append(heavy, put(fmt.Sprintf("task/%d", i), jsonOfSize(driver.MaxValue)))
	}
	guards := make([]driver.Guard, driver.MaxGuards+1)
	for i := range guards {
		guards[i] = at(fmt.Sprintf("lock/%d", i), 0)
	}
	for _, c := range []struct {
		what  string
		batch driver.Batch
	}{
		{"a value one byte too long", driver.Batch{Writes: []driver.Write{small, put("task/big", jsonOfSize(driver.MaxValue+1))}}},
		{"a key one byte too long", driver.Batch{Writes: []driver.Write{small, put(longKey("task/", driver.MaxKey+1), `{}`)}}},
		{"one write too many", driver.Batch{Writes: many}},
		{"one guard too many", driver.Batch{Guards: guards, Writes: []driver.Write{small}}},
		{"a batch that is too heavy", driver.Batch{Writes: heavy}},
	} {
		if err := refused(t, s, c.what, c.batch); !errors.Is(err, driver.ErrTooLarge) {
			t.Fatalf("%s: error %v, want ErrTooLarge", c.what, err)
		}
	}
}

func badKeys(t *suite) {
	s := t.open()
	for _, key := range []string{"", "/", "kind", "kind/", "/name", "//", strings.Repeat("x", 100)} {
		what := fmt.Sprintf("key %q", key)
		refused(t, s, what, driver.Batch{Writes: []driver.Write{put("task/good", `{}`), put(key, `{}`)}})
		refused(t, s, what+" deleted", driver.Batch{Writes: []driver.Write{put("task/good", `{}`), remove(key)}})
	}
}

func writtenTwice(t *suite) {
	s := t.open()
	refused(t, s, "two values for one key", driver.Batch{Writes: []driver.Write{put("task/a", `{}`), put("task/a", `{"n":2}`)}})
	refused(t, s, "a value and a deletion", driver.Batch{Writes: []driver.Write{put("task/a", `{}`), remove("task/a")}})
}

func cancelledBefore(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`))
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	if _, err := s.Read(ended, driver.Query{Keys: []string{"lock/a"}}); err == nil {
		t.Fatal("Read with an ended context gave no error")
	}
	for i := range t.rounds(20) {
		_, err := s.Commit(ended, driver.Batch{Writes: []driver.Write{put(fmt.Sprintf("lock/b%d", i), `{}`)}})
		if err == nil || errors.Is(err, driver.ErrConflict) {
			t.Fatalf("Commit with an ended context: error %v", err)
		}
	}
	if _, err := s.Commit(ended, driver.Batch{Guards: []driver.Guard{at("lock/a", rev)}}); err == nil {
		t.Fatal("Commit of guards alone with an ended context gave no error")
	}
	snap := t.read(s, driver.Query{Ranges: []driver.Range{{Prefix: "lock/"}}})
	t.wantKeys("after commits with an ended context", snap.Records, "lock/a")
	t.holds(s, at("lock/a", rev), at("lock/", rev))
}
