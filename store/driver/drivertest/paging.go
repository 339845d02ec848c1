package drivertest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

var pageCases = []testCase{
	{name: "pages in byte order", run: pageOrder},
	{name: "pages begin after any text", run: pageBegins},
	{name: "pages since a revision", run: pagesSince},
	{name: "pages among many records", run: pagesAmongMany},
	{name: "pages of a store that changes", run: pagesUnderWrites},
}

// pageOrder begins a range after each name, and after names between them, with
// every kind of limit.
func pageOrder(t *suite) {
	s := t.open()
	keys := t.oddNames()
	t.writeMixed(s, append(keys[:len(keys):len(keys)], "leasd/z", "leases/a"))
	var ranges []driver.Range
	for _, limit := range []int{0, 1, 3, -1, -3, 100, -100} {
		for _, key := range keys {
			for _, after := range []string{key, key + "\x01", key + "/", key + "~"} {
				ranges = append(ranges, driver.Range{Prefix: "lease/", After: after, Limit: limit})
			}
		}
	}
	for part := range slices.Chunk(ranges, 200) {
		var want []string
		for _, r := range part {
			want = append(want, selected(keys, r)...)
		}
		t.wantKeys("pages", t.read(s, driver.Query{Ranges: part}).Records, want...)
	}
	for _, size := range []int{1, 7, 100} {
		t.wantKeys(fmt.Sprintf("pages of %d", size), t.walk(s, "lease/", size), keys...)
	}
}

// selected is what a range selects of sorted keys: the contract once more.
func selected(keys []string, r driver.Range) (in []string) {
	for _, key := range keys {
		if strings.HasPrefix(key, r.Prefix) && key > r.After {
			in = append(in, key)
		}
	}
	switch n := len(in); {
	case r.Limit > 0:
		return in[:min(n, r.Limit)]
	case r.Limit < 0:
		return in[max(0, n+r.Limit):]
	}
	return in
}

// walk reads a prefix page by page.
func (t *suite) walk(s driver.Store, prefix string, size int) (all []driver.Record) {
	t.Helper()
	r := driver.Range{Prefix: prefix, Limit: size}
	for {
		page := t.read(s, driver.Query{Ranges: []driver.Range{r}}).Records
		if len(page) > size {
			t.Fatalf("%d records on a page of %d", len(page), size)
		}
		all = append(all, page...)
		if len(page) < size {
			return all
		}
		if next := page[size-1].Key; next > r.After {
			r.After = next
		} else {
			t.Fatalf("the page after %q ends with %q", r.After, next)
		}
	}
}

// pageBegins has text below, in and above the prefix, with and without a record of
// that key.
func pageBegins(t *suite) {
	s := t.open()
	t.write(s, put("ready/3", `{}`), put("ready/1", `{}`), put("ready/5", `{}`), put("read/9", `{}`), put("readyx/0", `{}`), put("ready/1/a", `{}`))
	all := []string{"ready/1", "ready/1/a", "ready/3", "ready/5"}
	long := strings.Repeat("z", driver.MaxKey)
	for _, c := range []struct {
		r    driver.Range
		want []string
	}{
		{driver.Range{Prefix: "ready/"}, all},
		{driver.Range{Prefix: "ready/", After: "a"}, all},
		{driver.Range{Prefix: "ready/", After: "read/9"}, all},
		{driver.Range{Prefix: "ready/", After: "ready"}, all},
		{driver.Range{Prefix: "ready/", After: "ready/"}, all},
		{driver.Range{Prefix: "ready/", After: "ready/0"}, all},
		{driver.Range{Prefix: "ready/", After: "ready/1"}, all[1:]},
		{driver.Range{Prefix: "ready/", After: "ready/1/"}, all[1:]},
		{driver.Range{Prefix: "ready/", After: "ready/1/a"}, all[2:]},
		{driver.Range{Prefix: "ready/", After: "ready/1/a", Limit: 1}, all[2:3]},
		{driver.Range{Prefix: "ready/", After: "ready/1/a", Limit: -1}, all[3:]},
		{driver.Range{Prefix: "ready/", After: "ready/1/a", Limit: -9}, all[2:]},
		{driver.Range{Prefix: "ready/", After: "ready/2"}, all[2:]},
		{driver.Range{Prefix: "ready/", After: "ready/4", Limit: -9}, all[3:]},
		{driver.Range{Prefix: "ready/", After: "ready/5"}, nil},
		{driver.Range{Prefix: "ready/", After: "ready/5", Limit: 1}, nil},
		{driver.Range{Prefix: "ready/", After: "ready/5", Limit: -1}, nil},
		{driver.Range{Prefix: "ready/", After: "ready/9", Limit: 2}, nil},
		{driver.Range{Prefix: "ready/", After: "ready0", Limit: 2}, nil},
		{driver.Range{Prefix: "ready/", After: "readyx/0", Limit: -2}, nil},
		{driver.Range{Prefix: "ready/", After: "zz"}, nil},
		{driver.Range{Prefix: "ready/", After: "zz", Limit: 2}, nil},
		{driver.Range{Prefix: "ready/", After: "zz", Limit: -2}, nil},
		{driver.Range{Prefix: "ready/", After: long, Limit: -2}, nil},
		{driver.Range{Prefix: "ready/1", After: "ready/1"}, all[1:2]},
		{driver.Range{Prefix: "ready/1", After: "ready/0", Limit: 9}, all[:2]},
		{driver.Range{Prefix: "read", After: "read/9", Limit: 2}, all[:2]},
		{driver.Range{Prefix: "none/", After: "none/a", Limit: 2}, nil},
		{driver.Range{After: "read/9", Limit: 2}, all[:2]},
		{driver.Range{After: "ready/3", Limit: -2}, []string{"ready/5", "readyx/0"}},
		{driver.Range{After: "ready/5"}, []string{"readyx/0"}},
		{driver.Range{After: "readyx/0"}, nil},
		{driver.Range{After: long}, nil},
	} {
		t.wantKeys(fmt.Sprintf("%+v", c.r), t.read(s, driver.Query{Ranges: []driver.Range{c.r}}).Records, c.want...)
	}
}

// pagesSince requires what was written later and is above the key.
func pagesSince(t *suite) {
	s := t.open()
	t.write(s, put("due/1", `{}`), put("due/2", `{}`), put("due/3", `{}`), put("due/4", `{}`))
	rev := t.scan(s, "due/")[0].Rev
	t.write(s, put("due/1", `{"n":2}`), put("due/2", `{"n":2}`), put("due/4", `{"n":2}`), put("due/5", `{}`), put("other/9", `{}`))
	for _, c := range []struct {
		after string
		since int64
		want  []string
	}{
		{"due/0", rev, []string{"due/1", "due/2", "due/4", "due/5"}},
		{"due/1", rev, []string{"due/2", "due/4", "due/5"}},
		{"due/2", rev, []string{"due/4", "due/5"}},
		{"due/3", rev, []string{"due/4", "due/5"}},
		{"due/2", rev - 1, []string{"due/3", "due/4", "due/5"}},
		{"due/5", rev, nil},
		{"due/9", rev, nil},
	} {
		snap := t.read(s, driver.Query{Ranges: []driver.Range{{Prefix: "due/", After: c.after, Since: c.since}}})
		known := func(r driver.Record) bool { return r.Rev <= c.since && r.Key > c.after } // which may be left out
		t.wantKeys(fmt.Sprintf("after %s since %d", c.after, c.since), slices.DeleteFunc(snap.Records, known), c.want...)
	}
}

// pagesAmongMany is a kind that is larger than one page of any protocol, and than
// what a driver keeps no index for.
func pagesAmongMany(t *suite) {
	s := t.open()
	const n = 3000
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("event/%05d", 2*i)
	}
	t.writeMixed(s, keys)
	for range 2 { // the second time there may be an index
		t.wantKeys("pages of 700", t.walk(s, "event/", 700), keys...)
		// What was written since is in no index.
		t.write(s, remove(keys[0]), remove(keys[1500]), put("event/03001", `{}`))
		now := slices.Delete(slices.Clone(keys), 1500, 1501)[1:]
		at, _ := slices.BinarySearch(now, "event/03001")
		now = slices.Insert(now, at, "event/03001")
		var ranges []driver.Range
		var want []string
		for _, after := range []string{keys[0], "event/02998", "event/02999", "event/03000", "event/03001", "event/03002", keys[n-2], keys[n-1], "event/1"} {
			for _, limit := range []int{1, 50, -1, -50} {
				r := driver.Range{Prefix: "event/", After: after, Limit: limit}
				ranges, want = append(ranges, r), append(want, selected(now, r)...)
			}
		}
		t.wantKeys("pages", t.read(s, driver.Query{Ranges: ranges}).Records, want...)
		t.write(s, put(keys[0], `{}`), put(keys[1500], `{}`), remove("event/03001"))
	}
}

// pagesUnderWrites walks while others write. Each page is one view; whoever stays is
// on one page; the key that a page begins after may be gone.
func pagesUnderWrites(t *suite) {
	const size, n = 7, 40
	writer, reader := t.open(), t.open()
	key := func(i int) string { return fmt.Sprintf("lock/%02d", i) }
	value, stop, stopped := 0, make(chan struct{}), make(chan error, 1)
	rewrite := func() error {
		value++
		writes := make([]driver.Write, n)
		for i := range writes {
			writes[i] = put(key(i), fmt.Sprintf(`{"n":%d}`, value))
		}
		for i := range n / 3 { // who comes and goes
			w := put(key(3*i)+"/guest", `{}`)
			if (value+i)%2 == 0 {
				w = remove(w.Key)
			}
			writes = append(writes, w)
		}
		_, err := writer.Commit(t.ctx, driver.Batch{Writes: writes})
		return err
	}
	if err := rewrite(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				if err := rewrite(); err != nil {
					stopped <- err
					return
				}
			}
		}
	}()
	defer func() {
		close(stop)
		if err := <-stopped; err != nil {
			t.Errorf("%v", err)
		}
	}()
	for range t.rounds(30) {
		t.walkStaying(reader, size, n)
	}
}

// walkStaying reads the locks page by page, and the last ones beside each page.
func (t *suite) walkStaying(s driver.Store, size, n int) {
	t.Helper()
	after, stay := "", 0
	for {
		first := driver.Range{Prefix: "lock/", After: after, Limit: size}
		last := driver.Range{Prefix: "lock/", After: after, Limit: -size}
		snap := t.read(s, driver.Query{Ranges: []driver.Range{first, last}})
		if len(snap.Records) == 0 {
			break
		}
		rev, pages := int64(0), len(snap.Records)/2
		for i, r := range snap.Records {
			if strings.HasSuffix(r.Key, "/guest") {
				continue
			}
			if rev == 0 {
				rev = r.Rev
			}
			if r.Rev != rev || r.Rev > snap.Rev {
				t.Fatalf("%s is of revision %d and another record of %d, in a view of %d", r.Key, r.Rev, rev, snap.Rev)
			}
			if i < pages {
				if want := fmt.Sprintf("lock/%02d", stay); r.Key != want {
					t.Fatalf("after %q: %s, want %s", after, r.Key, want)
				}
				stay++
			}
		}
		after = snap.Records[pages-1].Key
	}
	if stay != n {
		t.Fatalf("%d records of %d that were there throughout", stay, n)
	}
}
