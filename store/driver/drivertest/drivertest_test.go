package drivertest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

// A place of these tests is "bug@path": workers must have the bug too.
func TestMain(m *testing.M) {
	Main(m, func(place string) (driver.Store, error) {
		bug, path, _ := strings.Cut(place, "@")
		return &toy{toyPlace: newToyPlace(path), bug: bug}, nil
	})
}

func inMemory(bug string) Harness {
	var mu sync.Mutex
	places := map[string]*toyPlace{}
	return Harness{
		Place: func(testing.TB) string {
			mu.Lock()
			defer mu.Unlock()
			name := fmt.Sprint(len(places))
			places[name] = newToyPlace("")
			return name
		},
		Open: func(_ testing.TB, place string) driver.Store {
			mu.Lock()
			defer mu.Unlock()
			return &toy{toyPlace: places[place], bug: bug}
		},
	}
}

func inFile(bug string) Harness {
	return Harness{
		Processes: true,
		Place:     func(t testing.TB) string { return bug + "@" + filepath.Join(t.TempDir(), "toy.json") },
		Open: func(_ testing.TB, place string) driver.Store {
			_, path, _ := strings.Cut(place, "@")
			return &toy{toyPlace: newToyPlace(path), bug: bug}
		},
	}
}

// TestSoundStores: what the suite finds in the stores with bugs must not be
// there without them.
func TestSoundStores(t *testing.T) {
	t.Run("memory", func(t *testing.T) { Run(t, inMemory("")) })
	t.Run("file", func(t *testing.T) {
		for _, c := range processCases {
			t.Run(c.name, func(t *testing.T) { c.run(newSuite(t, inFile(""))) })
		}
	})
}

// TestLegalFaults: delays and early returns break no promise, so that the
// whole suite passes through them.
func TestLegalFaults(t *testing.T) {
	stores := map[string]*memstore.Store{}
	Run(t, Harness{
		Place: func(t testing.TB) string {
			stores[t.Name()] = memstore.New()
			return t.Name()
		},
		Open: func(t testing.TB, place string) driver.Store {
			return NewFlaky(stores[place], FlakyOptions{Seed: 1, Delay: 0.05, EarlyWait: 0.2})
		},
	})
}

// TestPlantedBugs shows that the suite can fail: each bug, and the cases that
// must find it.
func TestPlantedBugs(t *testing.T) {
	long.NotShort(t) // with -short the suite makes too few rounds to find all of them
	for bug, want := range map[string][]string{
		"ignores guards": {
			"guard on a changed record", "guard on a recreated record", "all or nothing", "one winner",
			"counter from several goroutines and handles", "counter through a bad network", "histories are linearizable",
		},
		"checks the first guard":        {"guards are all checked", "all or nothing"},
		"checks only with writes":       {"batch without writes"},
		"takes a lower revision":        {"guard on a record at its revision", "guard on a deleted record"},
		"checks, then acts":             {"one winner", "write skew is refused", "counter from several goroutines and handles", "histories are linearizable"},
		"keeps what a conflict left":    {"all or nothing"},
		"writes one after another":      {"a token moves in one step", "a token moves through a bad network", "thousand writes in one batch", "histories are linearizable"},
		"has no kinds":                  {"guard on a kind sees writes"},
		"does not see deletions":        {"guard on a kind sees deletions", "reopen after everything was deleted"},
		"takes all kinds for one":       {"guard on a kind ignores other kinds", "unrelated commits do not conflict"},
		"counts from what is there":     {"revisions are not used again after deletions"},
		"ignores the floor":             {"floor"},
		"keeps revisions as floats":     {"floor"},
		"forgets when closed":           {"reopen"},
		"starts again when empty":       {"reopen after everything was deleted"},
		"forgets every tenth":           {"read your writes", "counter from several goroutines and handles", "no half commit through a bad network"},
		"together: conflict":            {"unrelated commits do not conflict", "commits through one handle have a revision each"},
		"together: one revision":        {"commits through one handle have a revision each"},
		"hides that it guessed":         {"guarded answers"},
		"guesses behind its records":    {"guarded answers"},
		"guesses ahead of its clock":    {"guarded answers"},
		"reads a cache":                 {"read your writes", "histories are linearizable"},
		"reads in parts":                {"a token moves in one step", "pages of a store that changes"},
		"does not sort":                 {"ranges in byte order", "ranges with a limit"},
		"turns the last ones round":     {"ranges with a limit"},
		"matches like LIKE":             {"ranges by prefix only"},
		"takes a prefix for a folder":   {"ranges by prefix only"},
		"begins at a key":               {"pages in byte order", "pages begin after any text", "pages since a revision", "pages of a store that changes"},
		"begins after what is there":    {"pages in byte order", "pages begin after any text"},
		"begins after a key of its own": {"pages begin after any text"},
		"goes by folders":               {"pages in byte order"},
		"counts before it begins":       {"pages in byte order", "pages of a store that changes"},
		"drops duplicates":              {"records selected twice"},
		"shares its memory":             {"snapshots are the caller's own"},
		"encodes again":                 {"values come back byte for byte"},
		"folds case":                    {"keys that differ little", "guard on a kind ignores other kinds"},
		"cuts long keys":                {"long keys"},
		"cleans names":                  {"odd keys", "keys that differ little"},
		"accepts everything":            {"too large", "record written twice in one batch"},
		"ignores the context":           {"cancelled before the call"},
		"wait: never wakes":             {"wait wakes for a changed record", "wait wakes for another handle", "wait misses nothing", "wait of many at once"},
		"wait: deaf to kinds":           {"wait wakes for a kind", "wait returns at once when it has changed already"},
		"wait: deaf to what is absent":  {"wait wakes for a record that appears"},
		"wait: ignores the context":     {"wait ends with its context"},
		"wait: spins":                   {"wait does not spin"},
		"has another clock":             {"age of a record", "clock does not go back"},
		"has no clock":                  {"age of a record", "deadline of a record"},
		"keeps the first time":          {"age is reset by a write", "deadline of a record"},
		"drops early":                   {"deadline of a record"},
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			for _, name := range want {
				mustFail(t, inMemory(bug), name)
			}
		})
	}
	for bug, want := range map[string][]string{
		"does not lock its file":  {"counter from several processes"},
		"writes in place":         {"counter from several processes that are killed"},
		"wait: never wakes":       {"wait wakes for another process"},
		"checks, then acts":       {"counter from several processes", "processes open a new place at once"},
		"takes all kinds for one": {"unrelated commits from several processes"},
	} {
		t.Run("processes/"+bug, func(t *testing.T) {
			for _, name := range want {
				mustFail(t, inFile(bug), name)
			}
		})
	}
}

// mustFail runs the case as Run does, on a test that only notes its failure.
// Where the bug needs luck to show, as a kill at the wrong moment does, the
// case has five tries.
func mustFail(t *testing.T, h Harness, name string) {
	t.Helper()
	i := slices.IndexFunc(cases, func(c testCase) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no case %q", name)
	}
	for range 5 {
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s := newSuite(r, h)
			s.patience = 200 * time.Millisecond
			cases[i].run(s)
		}()
		<-done
		if r.failure != "" {
			t.Logf("case %q: %.200s", name, r.failure)
			return
		}
	}
	t.Errorf("case %q passed", name)
}

// A recorder is a test that notes its failure instead of failing.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Errorf(format string, args ...any) {
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

func TestFlaky(t *testing.T) {
	ctx := t.Context()
	write := driver.Batch{Guards: []driver.Guard{{Key: "lock/a"}}, Writes: []driver.Write{put("lock/a", `{}`)}}
	for _, c := range []struct {
		name    string
		opts    FlakyOptions
		unknown bool
		applied bool
	}{
		{"none", FlakyOptions{}, false, true},
		{"before", FlakyOptions{Before: 1}, true, false},
		{"after", FlakyOptions{After: 1}, true, true},
		{"late", FlakyOptions{Late: 1}, true, true},
		{"twice", FlakyOptions{Twice: 1}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := memstore.New()
			f := NewFlaky(s, c.opts)
			rev, err := f.Commit(ctx, write)
			if errors.Is(err, ErrFlaky) != c.unknown || errors.Is(err, driver.ErrConflict) {
				t.Errorf("error %v", err)
			}
			f.Settle()
			snap, err := s.Read(ctx, driver.Query{Keys: []string{"lock/a"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := find(snap, "lock/a").Rev; (got != 0) != c.applied || err == nil && rev != 0 && got != rev {
				t.Errorf("record at %d, commit at %d, want applied %v", got, rev, c.applied)
			}
			if want := c.name != "none"; f.Injected() > 0 != want {
				t.Errorf("%d faults", f.Injected())
			}
		})
	}

	t.Run("read", func(t *testing.T) {
		if _, err := NewFlaky(memstore.New(), FlakyOptions{Read: 1}).Read(ctx, driver.Query{}); !errors.Is(err, ErrFlaky) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("early wait", func(t *testing.T) {
		f := NewFlaky(memstore.New(), FlakyOptions{EarlyWait: 1})
		if err := f.Wait(ctx, []driver.Guard{{Key: "lock/a"}}); err != nil {
			t.Errorf("error %v", err)
		}
	})
	t.Run("lost wait", func(t *testing.T) {
		f := NewFlaky(memstore.New(), FlakyOptions{LostWait: 1})
		ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		if err := f.Wait(ctx, []driver.Guard{{Key: "lock/a", Rev: 7}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("seed", func(t *testing.T) {
		outcomes := func() (got []bool) {
			f := NewFlaky(memstore.New(), FlakyOptions{Seed: 5, Before: 0.5})
			for range 50 {
				_, err := f.Commit(ctx, driver.Batch{})
				got = append(got, err == nil)
			}
			return got
		}
		if a, b := fmt.Sprint(outcomes()), fmt.Sprint(outcomes()); a != b {
			t.Errorf("one seed, two runs:\n%s\n%s", a, b)
		}
	})
}
