package drivertest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tasklock/tasklock/store/driver"
)

var faultCases = []testCase{
	{name: "counter through a bad network", run: flakyCounter},
	{name: "a token moves through a bad network", run: flakyToken},
	{name: "no half commit through a bad network", run: flakyHalves},
}

// badNetwork is the network of the cases below, and of the histories.
var badNetwork = FlakyOptions{
	Before: 0.07, After: 0.07, Late: 0.05, Twice: 0.07, Read: 0.05, Delay: 0.1,
}

func (t *suite) openFlaky(seed uint64) *Flaky {
	t.Helper()
	opts := badNetwork
	opts.Seed = seed
	f := NewFlaky(t.open(), opts)
	t.Cleanup(f.Settle) // before the store is closed
	return f
}

// settle waits for late commits, and requires that there were faults.
func settle(t *suite, handles ...*Flaky) {
	t.Helper()
	injected := 0
	for _, f := range handles {
		f.Settle()
		injected += f.Injected()
	}
	if injected == 0 {
		t.Fatal("no fault was injected: the case has shown nothing")
	}
	t.Logf("%d faults", injected)
}

// flakyCounter repeats every increment with an unknown outcome until it knows,
// except that one in ten gives up: such an increment counts once or not at all,
// and every other counts once.
func flakyCounter(t *suite) {
	handles := []*Flaky{t.openFlaky(1), t.openFlaky(2)}
	rounds := max(5, t.rounds(25))
	var mu sync.Mutex
	var acked []string
	err := parallel(t.workers(), func(i int) error {
		for n := range rounds {
			nonce := fmt.Sprintf("%d-%d", i, n)
			err := ErrFlaky
			for err != nil {
				err = increment(t.ctx, handles[i%2], nonce)
				if err != nil && !errors.Is(err, ErrFlaky) {
					return err
				}
				if n%10 == 9 {
					break
				}
			}
			if err == nil {
				mu.Lock()
				acked = append(acked, nonce)
				mu.Unlock()
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	settle(t, handles...)
	checkCounter(t, t.open(), acked)
}

func flakyToken(t *suite) {
	opts := badNetwork
	opts.Seed, opts.Late = 3, 0 // a late move without a guard may come after later ones
	mover := NewFlaky(t.open(), opts)
	lookers := []*Flaky{t.openFlaky(4), t.openFlaky(5)}
	moveToken(t, mover, []driver.Store{lookers[0], lookers[1]}, func(err error) bool { return errors.Is(err, ErrFlaky) })
	settle(t, append(lookers, mover)...)
}

// flakyHalves writes pairs. Each must be whole or missing, and missing only if
// it was not acknowledged.
func flakyHalves(t *suite) {
	f := t.openFlaky(6)
	n := max(10, t.rounds(100))
	acked := make([]bool, n)
	err := parallel(n, func(i int) error {
		_, err := f.Commit(t.ctx, driver.Batch{Writes: []driver.Write{
			put(fmt.Sprintf("task/%d", i), `{}`), put(fmt.Sprintf("archive/%d", i), `{}`),
		}})
		acked[i] = err == nil
		if errors.Is(err, ErrFlaky) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	settle(t, f)
	s := t.open()
	for i := range n {
		a, b := t.get(s, fmt.Sprintf("task/%d", i)), t.get(s, fmt.Sprintf("archive/%d", i))
		if a.Rev != b.Rev || acked[i] && a.Rev == 0 {
			t.Fatalf("pair %d, acknowledged %v: one half at %d, the other at %d", i, acked[i], a.Rev, b.Rev)
		}
	}
}
