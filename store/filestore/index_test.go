package filestore_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/filestore"
)

// A part of a large kind is what a whole look shows, whatever was written since
// the index was made, by whom, and however often the journal started over.
func TestIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	a, b := open(t, dir), open(t, dir)
	for _, s := range []*filestore.Store{a, b} {
		s.SetLimit(60_000)
	}
	random := rand.New(rand.NewPCG(1, 2))
	name := func() string {
		n := random.IntN(900)
		return fmt.Sprintf("ready/%c\n\\%s/%03d", 'a'+n%7, strings.Repeat("Ä", n%90), n)
	}
	for round := range 30 {
		var writes []driver.Write
		for range 90 {
			w := driver.Write{Key: name(), Value: []byte(`{}`)}
			if random.IntN(3) == 0 && round > 6 {
				w.Value = nil
			}
			if !slices.ContainsFunc(writes, func(o driver.Write) bool { return o.Key == w.Key }) {
				writes = append(writes, w)
			}
		}
		_, err := a.Commit(t.Context(), driver.Batch{Writes: writes})
		must(t, err)
		for _, s := range []*filestore.Store{a, b} {
			sameParts(t, s, round)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "index", "ready")); err != nil {
		t.Errorf("no index was made: the case has shown nothing: %v", err)
	}
}

// sameParts compares parts of a kind with the whole kind.
func sameParts(t *testing.T, s *filestore.Store, round int) {
	t.Helper()
	read := func(rg driver.Range) (keys []string) {
		snap, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{rg}})
		must(t, err)
		for _, r := range snap.Records {
			keys = append(keys, r.Key)
		}
		return keys
	}
	whole := read(driver.Range{Prefix: "ready/"})
	for _, limit := range []int{0, 2, -2, 60, -60, 10_000} {
		for _, prefix := range []string{"ready/", "ready/c\n", "ready/b\n\\Ä", "ready/none"} {
			var want []string
			for _, key := range whole {
				if strings.HasPrefix(key, prefix) {
					want = append(want, key)
				}
			}
			switch {
			case limit > 0:
				want = want[:min(limit, len(want))]
			case limit < 0:
				want = want[max(0, len(want)+limit):]
			}
			if got := read(driver.Range{Prefix: prefix, Limit: limit}); !slices.Equal(got, want) {
				t.Fatalf("round %d, prefix %q, limit %d: %d keys %.300q, want %d %.300q", round, prefix, limit, len(got), got, len(want), want)
			}
		}
	}
}

// An index that is damaged, of another life or of another history is not used.
func TestDamagedIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	fill(t, dir, "ready/", 600)
	s := open(t, dir)
	sameParts(t, s, 0)
	path := filepath.Join(dir, "index", "ready")
	whole, err := os.ReadFile(path)
	must(t, err)
	var all []string
	for i := range 600 {
		all = append(all, fmt.Sprintf("ready/%06d/x", i))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		broken := slices.Clone(whole)
		switch i % 3 {
		case 0:
			broken[random.IntN(len(broken))] ^= 0xff
		case 1:
			broken = broken[:random.IntN(len(broken))]
		case 2:
			at := random.IntN(len(broken))
			clear(broken[at:min(len(broken), at+4096)])
		}
		must(t, os.WriteFile(path, broken, 0o600))
		for _, rg := range []driver.Range{
			{Prefix: "ready/", Limit: 3}, {Prefix: "ready/", Limit: -3},
			{Prefix: fmt.Sprintf("ready/0%04d", i*3%600/10)}, {Prefix: "ready/0001", Limit: -100},
		} {
			snap, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{rg}})
			must(t, err)
			var got []string
			for _, r := range snap.Records {
				got = append(got, r.Key)
			}
			if want := rangeOf(all, rg); !slices.Equal(got, want) {
				t.Fatalf("damage %d, %+v: %.300q, want %.300q", i, rg, got, want)
			}
		}
	}
	must(t, os.WriteFile(path, whole, 0o600))
	other := filepath.Join(t.TempDir(), "store")
	fill(t, other, "ready/", 300)
	must(t, os.Mkdir(filepath.Join(other, "index"), 0o700))
	must(t, os.WriteFile(filepath.Join(other, "index", "ready"), whole, 0o600))
	sameParts(t, open(t, other), 0)
}

// fill makes a store with many records of a kind.
func fill(t *testing.T, dir, kind string, n int) {
	t.Helper()
	s := open(t, dir)
	for from := 0; from < n; from += 1000 {
		var b driver.Batch
		for i := from; i < min(n, from+1000); i++ {
			b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprintf("%s%06d/x", kind, i), Value: []byte(`{}`)})
		}
		_, err := s.Commit(t.Context(), b)
		must(t, err)
	}
}

// A backup of the files that is copied over them is another history, in which the
// same place of the journal can mean something else.
func TestIndexOfAnotherHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	fill(t, dir, "ready/", 600)
	backup := filepath.Join(t.TempDir(), "backup")
	must(t, os.CopyFS(backup, os.DirFS(dir)))
	erase := func(s *filestore.Store, hundred int) {
		for i := range 100 {
			_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: fmt.Sprintf("ready/%06d/x", hundred*100+i)}}})
			must(t, err)
		}
	}
	first := open(t, dir)
	erase(first, 1)
	sameParts(t, first, 0) // makes the index
	must(t, filepath.WalkDir(backup, func(path string, d os.DirEntry, err error) error {
		must(t, err)
		if d.IsDir() {
			return nil
		}
		content, err := os.ReadFile(path)
		must(t, err)
		name, err := filepath.Rel(backup, path)
		must(t, err)
		return os.WriteFile(filepath.Join(dir, name), content, 0o600)
	}))
	second := open(t, dir)
	erase(second, 2)
	snap, err := second.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "ready/0001"}}})
	must(t, err)
	if len(snap.Records) != 100 {
		t.Errorf("%d records, want 100", len(snap.Records))
	}
}
