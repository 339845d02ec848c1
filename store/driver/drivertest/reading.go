package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

var readCases = []testCase{
	{name: "read your writes", run: readYourWrites},
	{name: "old answers", run: oldAnswers},
	{name: "guarded answers", run: guardedAnswers},
	{name: "empty query", run: emptyQuery},
	{name: "ranges in byte order", run: rangeOrder},
	{name: "ranges with a limit", run: rangeLimits},
	{name: "ranges since a revision", run: rangeSince},
	{name: "ranges by prefix only", run: rangePrefixes},
	{name: "range over everything", run: rangeAll},
	{name: "range over many records", run: rangeMany},
	{name: "records selected twice", run: selectedTwice},
	{name: "query of a thousand keys", run: thousandKeys},
	{name: "snapshots are the caller's own", run: ownSnapshots},
}

func readYourWrites(t *suite) {
	a, b := t.open(), t.open()
	for i := range t.rounds(50) {
		value := fmt.Sprintf(`{"n":%d}`, i)
		rev := t.write(a, put("lock/a", value))
		for _, s := range []driver.Store{a, b} {
			if r := t.get(s, "lock/a"); string(r.Value) != value || r.Rev != rev {
				t.Fatalf("wrote %s at %d, then read %s at %d", value, rev, r.Value, r.Rev)
			}
		}
		t.write(b, remove("lock/a"))
		for _, s := range []driver.Store{a, b} {
			if r := t.get(s, "lock/a"); r.Rev != 0 {
				t.Fatalf("deleted, then read %s at %d", r.Value, r.Rev)
			}
		}
	}
}

// oldAnswers: a caller that allows an old answer gets one that was true and is
// marked as perhaps old, and cannot commit on it if it is.
func oldAnswers(t *suite) {
	a, b := t.open(), t.open()
	first := t.write(a, put("lock/a", `{"n":0}`))
	t.get(b, "lock/a")
	for i := range t.rounds(10) {
		second := t.write(a, put("lock/a", `{"n":1}`))
		q := driver.Query{Keys: []string{"lock/a"}, Since: first}
		snap := t.read(b, q)
		if snap.Rev < first || !snap.Old && snap.Rev < second || len(snap.Records) != 1 || snap.Records[0].Rev > snap.Rev {
			t.Fatalf("since %d, now at %d: %d records at revision %d, old: %v", first, second, len(snap.Records), snap.Rev, snap.Old)
		}
		seen := snap.Records[0].Rev
		_, err := b.Commit(t.ctx, driver.Batch{Guards: []driver.Guard{{Key: "lock/a", Rev: seen}}, Writes: []driver.Write{put("lock/b", fmt.Sprintf(`{"n":%d}`, i))}})
		if seen == second && err != nil || seen != second && !errors.Is(err, driver.ErrConflict) {
			t.Fatalf("committed on revision %d, now at %d: %v", seen, second, err)
		}
		if q.Since = second; t.read(b, q).Records[0].Rev != second {
			t.Fatalf("since %d: an older record", second)
		}
		first = second
	}
}

// guardedAnswers: a caller that will guard everything gets records of which each was
// true at some revision, and perhaps none for a name that it calls new. It commits on
// them if all of them are still true, and conflicts otherwise.
func guardedAnswers(t *suite) {
	a, b := t.open(), t.open()
	keys := []string{"lock/a", "lock/b", "lease/new"}
	written := map[string][]int64{"lock/a": {0}, "lock/b": {0}, "lease/new": {0}}
	write := func(s driver.Store, key string, n int) {
		written[key] = append(written[key], t.write(s, put(key, fmt.Sprintf(`{"n":%d}`, n))))
	}
	for i := range t.rounds(12) {
		write(b, keys[i%2], i) // what b itself did is in its memory, what a did is not
		if i%3 == 0 {
			write(a, keys[(i+1)%2], i)
		}
		if i == 5 {
			write(a, "lease/new", i)
		}
		snap := t.read(b, driver.Query{Keys: keys, New: keys[2:], Since: 1, Guarded: true})
		if later := t.read(b, driver.Query{}).Now; snap.Now.After(later) {
			t.Fatalf("round %d: the clock of the answer is %v ahead", i, snap.Now.Sub(later))
		}
		batch := driver.Batch{Writes: []driver.Write{put("lock/c", fmt.Sprintf(`{"n":%d}`, i))}}
		current := true
		for _, key := range keys {
			rev := find(snap, key).Rev
			if age := snap.Now.Sub(find(snap, key).Time); rev > 0 && age < 0 {
				t.Fatalf("round %d: %s has the age %v", i, key, age)
			}
			all := written[key]
			if !slices.Contains(all, rev) {
				t.Fatalf("%s at revision %d, which never was", key, rev)
			}
			if rev != all[len(all)-1] {
				current = false
			}
			batch.Guards = append(batch.Guards, driver.Guard{Key: key, Rev: rev})
		}
		if !current && !snap.Old {
			t.Fatalf("round %d: an old answer that is not marked as one", i)
		}
		_, err := b.Commit(t.ctx, batch)
		if current && err != nil || !current && !errors.Is(err, driver.ErrConflict) {
			t.Fatalf("round %d: committed on %v of %v: %v", i, batch.Guards, written, err)
		}
		for _, key := range keys { // without the promise, it is the truth
			if all := written[key]; t.get(b, key).Rev != all[len(all)-1] {
				t.Fatalf("round %d: %s is not at revision %d", i, key, all[len(all)-1])
			}
		}
	}
}

func emptyQuery(t *suite) {
	s := t.open()
	if snap := t.read(s, driver.Query{}); len(snap.Records) != 0 || snap.Now.IsZero() {
		t.Fatalf("empty query of an empty store: %d records, now %v", len(snap.Records), snap.Now)
	}
	t.write(s, put("lock/a", `{}`))
	if snap := t.read(s, driver.Query{}); len(snap.Records) != 0 {
		t.Fatalf("empty query: %d records", len(snap.Records))
	}
	q := driver.Query{Keys: []string{"lock/none"}, Ranges: []driver.Range{{Prefix: "none/"}}}
	if snap := t.read(s, q); len(snap.Records) != 0 {
		t.Fatalf("query of what is not there: %d records", len(snap.Records))
	}
}

// oddNames are names that languages, encodings of file names, and UTF-16 would
// each sort differently. They are in byte order.
func (t *suite) oddNames() []string {
	keys := []string{
		"lease/ ", "lease/!", "lease/%41", "lease/-", "lease/.", "lease//", "lease/0", "lease/10", "lease/2", "lease/A",
		"lease/B", "lease/Z", "lease/_", "lease/a", "lease/a b", "lease/a!", "lease/a-", "lease/a-b", "lease/a.b",
		"lease/a/", "lease/a/0", "lease/a/b", "lease/a0", "lease/aa", "lease/ab", "lease/b", "lease/e\u0301", "lease/z", "lease/~",
		"lease/ä", "lease/é", "lease/ﬀ", "lease/\uff5e", "lease/\U0001f600",
	}
	if !slices.IsSorted(keys) {
		t.Fatal("the case itself is wrong: its keys are not in byte order")
	}
	return keys
}

func rangeOrder(t *suite) {
	s := t.open()
	keys := t.oddNames()
	t.writeMixed(s, keys)
	t.wantKeys("lease/", t.scan(s, "lease/"), keys...)
}

// writeMixed writes the keys in one batch, in an order of its own.
func (t *suite) writeMixed(s driver.Store, keys []string) {
	var writes []driver.Write
	for _, i := range []int{1, 0} { // odd places first: insertion order is not key order
		for ; i < len(keys); i += 2 {
			writes = append(writes, put(keys[i], `{}`))
		}
	}
	t.write(s, writes...)
}

func rangeLimits(t *suite) {
	s := t.open()
	t.write(s, put("ready/3", `{}`), put("ready/1", `{}`), put("ready/5", `{}`), put("ready/2", `{}`), put("ready/4", `{}`),
		put("read/9", `{}`), put("readyx/0", `{}`))
	for _, c := range []struct {
		limit int
		want  []string
	}{
		{0, []string{"ready/1", "ready/2", "ready/3", "ready/4", "ready/5"}},
		{1, []string{"ready/1"}},
		{2, []string{"ready/1", "ready/2"}},
		{5, []string{"ready/1", "ready/2", "ready/3", "ready/4", "ready/5"}},
		{100, []string{"ready/1", "ready/2", "ready/3", "ready/4", "ready/5"}},
		{-1, []string{"ready/5"}},
		{-2, []string{"ready/4", "ready/5"}},
		{-5, []string{"ready/1", "ready/2", "ready/3", "ready/4", "ready/5"}},
		{-100, []string{"ready/1", "ready/2", "ready/3", "ready/4", "ready/5"}},
	} {
		snap := t.read(s, driver.Query{Ranges: []driver.Range{{Prefix: "ready/", Limit: c.limit}}})
		t.wantKeys(fmt.Sprintf("limit %d", c.limit), snap.Records, c.want...)
	}
	snap := t.read(s, driver.Query{Ranges: []driver.Range{{Prefix: "none/", Limit: 1}, {Prefix: "none/", Limit: -1}}})
	t.wantKeys("limits on an empty range", snap.Records)
}

// rangeSince requires what was written later. What was not may be left out.
func rangeSince(t *suite) {
	s := t.open()
	t.write(s, put("due/1", `{}`), put("due/2", `{}`), put("due/3", `{}`), put("other/1", `{}`))
	rev := t.scan(s, "due/")[0].Rev
	t.write(s, put("due/2", `{"n":2}`), put("due/4", `{}`), driver.Write{Key: "due/3"}, put("other/2", `{}`))
	for _, since := range []int64{0, rev - 1, rev} {
		snap := t.read(s, driver.Query{Ranges: []driver.Range{{Prefix: "due/", Since: since}}})
		var later []driver.Record
		for _, r := range snap.Records {
			if r.Rev > rev || since < rev {
				later = append(later, r)
			}
		}
		want := []string{"due/2", "due/4"}
		if since < rev {
			want = []string{"due/1", "due/2", "due/4"}
		}
		t.wantKeys(fmt.Sprintf("since %d of %d", since, rev), later, want...)
	}
	t.sinceEach(s)
}

// sinceEach writes some records again and again, leaps once, and asks what is new after
// each commit, by another handle too.
func (t *suite) sinceEach(s driver.Store) {
	var revs []int64
	for i := range 12 {
		w := put(fmt.Sprintf("due/%d", i%5), fmt.Sprintf(`{"n":%d}`, i))
		if i%2 == 0 {
			w.TTL = time.Hour
		}
		b := driver.Batch{Writes: []driver.Write{w}}
		if i == 6 {
			b.Floor = revs[5] + 1<<33
		}
		revs = append(revs, t.commit(s, b))
	}
	for _, s := range []driver.Store{s, t.open()} {
		all := t.scan(s, "due/")
		for _, since := range revs {
			older := func(r driver.Record) bool { return r.Rev <= since }
			got := t.read(s, driver.Query{Ranges: []driver.Range{{Prefix: "due/", Since: since}}}).Records
			want := keysOf(slices.DeleteFunc(slices.Clone(all), older))
			t.wantKeys(fmt.Sprintf("since %d of %v", since, revs), slices.DeleteFunc(slices.Clone(got), older), want...)
		}
	}
}

// rangePrefixes has prefixes of prefixes, and what LIKE and glob would match.
func rangePrefixes(t *suite) {
	s := t.open()
	var writes []driver.Write
	for _, key := range []string{
		"lease/a", "lease/a/1", "lease/a/2", "lease/ab", "lease/a%", "lease/a_", "lease/a*", "lease/a?", "lease/a[b]", `lease/a\`,
		"lease/A", "lease/A/1", "lease/b", "leases/a", "lea/a",
	} {
		writes = append(writes, put(key, `{}`))
	}
	t.write(s, writes...)
	for _, c := range []struct {
		prefix string
		want   []string
	}{
		{"lease/a/", []string{"lease/a/1", "lease/a/2"}},
		{"lease/a", []string{"lease/a", "lease/a%", "lease/a*", "lease/a/1", "lease/a/2", "lease/a?", "lease/a[b]", `lease/a\`, "lease/a_", "lease/ab"}},
		{"lease/A", []string{"lease/A", "lease/A/1"}},
		{"lease/ab", []string{"lease/ab"}},
		{"lease/a%", []string{"lease/a%"}},
		{"lease/a_", []string{"lease/a_"}},
		{"lease/a*", []string{"lease/a*"}},
		{"lease/a?", []string{"lease/a?"}},
		{"lease/a[b]", []string{"lease/a[b]"}},
		{"lease/[a", nil},
		{`lease/a\`, []string{`lease/a\`}},
		{"lease/a/1", []string{"lease/a/1"}},
		{"lease/a/1/", nil},
		{"lease/%", nil},
		{"lea/", []string{"lea/a"}},
		{"leases/", []string{"leases/a"}},
		{"lease/b", []string{"lease/b"}},
		{"LEASE/", nil},
	} {
		t.wantKeys("prefix "+c.prefix, t.scan(s, c.prefix), c.want...)
	}
}

func rangeAll(t *suite) {
	s := t.open()
	t.wantKeys("an empty store", t.scan(s, ""))
	t.write(s, put("task/1", `{}`), put("lock/a", `{}`), put("path/a", `{}`), put("lock/b", `{}`))
	t.write(s, remove("path/a"))
	t.wantKeys("everything", t.scan(s, ""), "lock/a", "lock/b", "task/1")
	t.wantKeys("across kinds", t.scan(s, "l"), "lock/a", "lock/b")
	snap := t.read(s, driver.Query{Ranges: []driver.Range{{Limit: -1}, {Limit: 1}}})
	t.wantKeys("the last and the first of all", snap.Records, "task/1", "lock/a")
}

// rangeMany is larger than one page of any protocol we know.
func rangeMany(t *suite) {
	s := t.open()
	const each = 4000
	batches := t.rounds(4)
	for b := range batches {
		writes := make([]driver.Write, each)
		for i := range writes {
			writes[i] = put(fmt.Sprintf("event/%05d", i*batches+b), `{}`)
		}
		t.write(s, writes...)
	}
	n := batches * each
	records := t.scan(s, "event/")
	if len(records) != n {
		t.Fatalf("%d records of %d", len(records), n)
	}
	for i, r := range records {
		if want := fmt.Sprintf("event/%05d", i); r.Key != want {
			t.Fatalf("record %d is %s, want %s", i, r.Key, want)
		}
	}
	snap := t.read(s, driver.Query{Ranges: []driver.Range{{Prefix: "event/", Limit: 2}, {Prefix: "event/", Limit: -1}}})
	t.wantKeys("both ends", snap.Records, "event/00000", "event/00001", fmt.Sprintf("event/%05d", n-1))
}

func selectedTwice(t *suite) {
	s := t.open()
	t.write(s, put("lock/a", `{}`), put("lock/b", `{}`), put("task/1", `{}`))
	snap := t.read(s, driver.Query{
		Keys:   []string{"task/1", "lock/b", "lock/none", "lock/b"},
		Ranges: []driver.Range{{Prefix: "lock/"}, {Prefix: "task/"}, {Prefix: "lock/b"}, {Prefix: "lock/", Limit: 1}},
	})
	t.wantKeys("keys in their order, then each range", snap.Records,
		"task/1", "lock/b", "lock/b",
		"lock/a", "lock/b", "task/1", "lock/b", "lock/a")
}

func thousandKeys(t *suite) {
	s := t.open()
	var writes []driver.Write
	var keys, want []string
	for i := range 1000 {
		key := fmt.Sprintf("task/%04d", (i*617)%1000) // every key once, out of order
		keys = append(keys, key)
		if i%3 > 0 {
			writes = append(writes, put(key, `{}`))
			want = append(want, key)
		}
	}
	t.write(s, writes...)
	t.wantKeys("the keys that exist, in the order asked", t.read(s, driver.Query{Keys: keys}).Records, want...)
}

// ownSnapshots scribbles over what Read returned and over what Commit was
// given: neither may reach the store.
func ownSnapshots(t *suite) {
	s := t.open()
	value := []byte(`{"n":1}`)
	t.write(s, driver.Write{Key: "lock/a", Value: value})
	copy(value, "xxxxxxx")
	q := driver.Query{Keys: []string{"lock/a"}, Ranges: []driver.Range{{Prefix: "lock/"}}}
	for range 2 {
		for _, r := range t.read(s, q).Records {
			if string(r.Value) != `{"n":1}` {
				t.Fatalf("the stored value became %s", r.Value)
			}
			copy(r.Value, "yyyyyyy")
		}
	}
}
