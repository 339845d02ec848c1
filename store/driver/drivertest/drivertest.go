// Package drivertest is the conformance suite of the store drivers. A driver
// is done when [Run] passes on it, unchanged; a bug found in one driver
// becomes a case here, so that no other driver can have it.
//
// A driver's test file holds no more than this:
//
//	func TestMain(m *testing.M) { drivertest.Main(m, open) }
//
//	func TestConformance(t *testing.T) {
//		drivertest.Run(t, drivertest.Harness{Open: …, Place: …, Processes: true})
//	}
//
// The cases assert what package driver promises and nothing else: if the
// contract leaves room (gaps between revisions, a Wait that returns early,
// the revision of an empty store) every choice passes. Each group of cases is
// one file. The tests of this package run the cases against stores with planted
// bugs, and require that the suite finds each.
//
// [Flaky] wraps a store in the faults a network has. The suite uses it, and
// so can the tests of everything above a driver.
package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tasklock/tasklock/store/driver"
)

// A Harness tells the suite how to reach a driver.
type Harness struct {
	// Open returns a store over the place; called several times for one
	// place it gives independent handles on the same records. The suite
	// closes each handle once. Open fails the test if it cannot open.
	Open func(t testing.TB, place string) driver.Store

	// Place returns a fresh, empty place.
	Place func(t testing.TB) string

	// Processes: several processes can open one place. The suite then starts
	// the test binary again as a worker, which needs [Main] in TestMain.
	Processes bool

	// Slow: a commit costs tens of milliseconds or more. The suite then does
	// fewer rounds and is more patient.
	Slow bool
}

// Run runs every case, each on its own place, and checks at the end that the
// closed stores left no goroutine behind. Do not run it in parallel with other
// tests.
func Run(t *testing.T, h Harness) {
	before := goleak.IgnoreCurrent()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.processes && !h.Processes {
				t.Skip("this store lives in one process")
			}
			if c.processes && testing.Short() {
				t.Skip("starts processes; runs without -short")
			}
			c.run(newSuite(t, h))
		})
	}
	if t.Failed() {
		return
	}
	t.Run("leaves no goroutine behind", func(t *testing.T) {
		if err := goleak.Find(before); err != nil {
			t.Fatal(err)
		}
	})
}

// A testCase is one promise of the contract. It fails its suite or returns.
type testCase struct {
	name      string
	processes bool // needs Harness.Processes
	run       func(t *suite)
}

var cases = concat(
	guardCases, batchCases, revisionCases, readCases, pageCases, recordCases, refusalCases,
	waitCases, ageCases, concurrencyCases, processCases, faultCases, linearCases,
)

func concat(groups ...[]testCase) []testCase {
	var all []testCase
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// A suite is what one case works with: its test, its place, its time.
type suite struct {
	testing.TB
	h        Harness
	place    string
	ctx      context.Context // ends a case that hangs
	patience time.Duration   // how long something that must happen soon may take
}

func newSuite(t testing.TB, h Harness) *suite {
	limit, patience := 5*time.Minute, 10*time.Second
	if h.Slow {
		patience = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return &suite{TB: t, h: h, place: h.Place(t), ctx: ctx, patience: patience}
}

// open returns another handle on the case's place, closed when the case ends.
func (t *suite) open() driver.Store {
	t.Helper()
	s := t.h.Open(t.TB, t.place)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// rounds returns n, or a tenth of it for a slow store, or a fifth with -short.
func (t *suite) rounds(n int) int {
	switch {
	case t.h.Slow:
		return max(2, n/10)
	case testing.Short():
		return max(2, n/5)
	}
	return n
}

// workers returns how many goroutines or processes contend in a case.
func (t *suite) workers() int {
	if t.h.Slow {
		return 3
	}
	return 8
}

func (t *suite) read(s driver.Store, q driver.Query) driver.Snapshot {
	t.Helper()
	snap, err := s.Read(t.ctx, q)
	if err != nil {
		t.Fatalf("Read(%v): %v", q, err)
	}
	return snap
}

// get returns the record of that key, or the zero Record when there is none.
func (t *suite) get(s driver.Store, key string) driver.Record {
	t.Helper()
	return find(t.read(s, driver.Query{Keys: []string{key}}), key)
}

// scan returns everything under the prefix.
func (t *suite) scan(s driver.Store, prefix string) []driver.Record {
	t.Helper()
	return t.read(s, driver.Query{Ranges: []driver.Range{{Prefix: prefix}}}).Records
}

func (t *suite) commit(s driver.Store, b driver.Batch) int64 {
	t.Helper()
	rev, err := s.Commit(t.ctx, b)
	if err != nil {
		t.Fatalf("Commit with guards %v: %v", b.Guards, err)
	}
	return rev
}

// write commits the writes without a guard.
func (t *suite) write(s driver.Store, writes ...driver.Write) int64 {
	t.Helper()
	return t.commit(s, driver.Batch{Writes: writes})
}

// conflict requires that the guards refuse a commit, and that the refused
// batch left no trace.
func (t *suite) conflict(s driver.Store, guards ...driver.Guard) {
	t.Helper()
	const trace = "trace/refused"
	_, err := s.Commit(t.ctx, driver.Batch{Guards: guards, Writes: []driver.Write{put(trace, `{}`)}})
	if !errors.Is(err, driver.ErrConflict) {
		t.Fatalf("Commit with guards %v: error %v, want ErrConflict", guards, err)
	}
	if r := t.get(s, trace); r.Rev != 0 {
		t.Fatalf("Commit with guards %v was refused, yet its write is there: %v", guards, r)
	}
}

// holds requires that the guards let a commit through.
func (t *suite) holds(s driver.Store, guards ...driver.Guard) {
	t.Helper()
	t.commit(s, driver.Batch{Guards: guards, Writes: []driver.Write{put("trace/passed", `{}`)}})
}

// wantKeys requires exactly these records, in this order.
func (t *suite) wantKeys(what string, got []driver.Record, want ...string) {
	t.Helper()
	if g, w := fmt.Sprintf("%q", keysOf(got)), fmt.Sprintf("%q", want); len(got)+len(want) > 0 && g != w {
		t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func put(key, value string) driver.Write { return driver.Write{Key: key, Value: []byte(value)} }

func remove(key string) driver.Write { return driver.Write{Key: key} }

func at(key string, rev int64) driver.Guard { return driver.Guard{Key: key, Rev: rev} }

func find(snap driver.Snapshot, key string) driver.Record {
	for _, r := range snap.Records {
		if r.Key == key {
			return r
		}
	}
	return driver.Record{}
}

func keysOf(records []driver.Record) []string {
	keys := make([]string, len(records))
	for i, r := range records {
		keys[i] = r.Key
	}
	return keys
}

// parallel runs f for 0 … n-1 at the same time and joins their errors.
func parallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// pause lets others in between two steps, one time in four. Without it a fast
// store has done one client's work before the next client starts.
func pause() {
	if rand.IntN(4) == 0 {
		time.Sleep(rand.N(time.Millisecond))
	}
}
