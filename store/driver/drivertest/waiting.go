package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

var waitCases = []testCase{
	{name: "wait wakes for a changed record", run: waitChanged},
	{name: "wait wakes for a record that appears", run: waitAppears},
	{name: "wait wakes for a deleted record", run: waitDeleted},
	{name: "wait wakes for a kind", run: waitKind},
	{name: "wait wakes for any of several guards", run: waitSeveral},
	{name: "wait returns at once when it has changed already", run: waitAlready},
	{name: "wait wakes for another handle", run: waitOtherHandle},
	{name: "wait misses nothing", run: waitMissesNothing},
	{name: "wait of many at once", run: waitMany},
	{name: "wait ends with its context", run: waitContext},
	{name: "wait does not spin", run: waitQuiet},
}

// untilBroken waits until a guard no longer holds. Early returns are allowed,
// so it looks, as every caller must: guards without writes are that question.
func untilBroken(ctx context.Context, s driver.Store, guards []driver.Guard) error {
	for {
		if err := s.Wait(ctx, guards); err != nil {
			return fmt.Errorf("Wait: %w", err)
		}
		switch _, err := s.Commit(ctx, driver.Batch{Guards: guards}); {
		case errors.Is(err, driver.ErrConflict):
			return nil
		case err != nil && ctx.Err() == nil: // else the next Wait says so
			return fmt.Errorf("Commit of the guards: %w", err)
		}
	}
}

// wakes requires that change wakes a waiter for the guards, and that nothing
// else does.
func wakes(t *suite, s driver.Store, change func(), guards ...driver.Guard) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, t.patience)
	defer cancel()
	woken := make(chan error, 1)
	go func() { woken <- untilBroken(ctx, s, guards) }()

	select {
	case err := <-woken:
		t.Fatalf("waiting for %v ended before anything changed: %v", guards, err)
	case <-time.After(20 * time.Millisecond): // asleep by now, as a rule; both orders must work
	}
	change()
	if err := <-woken; err != nil {
		t.Fatalf("waiting for %v: %v", guards, err)
	}
}

func waitChanged(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`))
	wakes(t, s, func() { t.write(s, put("lock/a", `{}`)) }, at("lock/a", rev))
}

func waitAppears(t *suite) {
	s := t.open()
	wakes(t, s, func() { t.write(s, put("lock/a/b", `{}`)) }, at("lock/a/b", 0))
}

func waitDeleted(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`))
	wakes(t, s, func() { t.write(s, remove("lock/a")) }, at("lock/a", rev))
}

func waitKind(t *suite) {
	s := t.open()
	rev := t.write(s, put("path/a", `{}`))
	wakes(t, s, func() { t.write(s, put("path/b", `{}`)) }, at("path/", rev))
	rev = t.read(s, driver.Query{}).Rev
	wakes(t, s, func() { t.write(s, remove("path/a")) }, at("path/", rev))
}

func waitSeveral(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`), put("lock/b", `{}`))
	guards := []driver.Guard{at("lock/a", rev), at("lock/b", rev), at("lock/none", 0), at("path/", rev)}
	wakes(t, s, func() {
		t.write(s, put("lock/other", `{}`)) // nobody asked about this one
		t.write(s, put("lock/b", `{}`))
	}, guards...)

	guards[1].Rev = t.get(s, "lock/b").Rev
	wakes(t, s, func() { t.write(s, put("path/x", `{}`)) }, guards...)
}

func waitAlready(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`))
	t.write(s, put("lock/a", `{}`))
	ctx, cancel := context.WithTimeout(t.ctx, t.patience)
	defer cancel()
	for _, g := range []driver.Guard{at("lock/a", rev), at("lock/a", 0), at("lock/none", rev), at("lock/", rev)} {
		if err := s.Wait(ctx, []driver.Guard{at("lock/absent", 0), g}); err != nil {
			t.Fatalf("Wait for %v, which does not hold: %v", g, err)
		}
	}
}

func waitOtherHandle(t *suite) {
	a, b := t.open(), t.open()
	rev := t.write(a, put("lock/a", `{}`))
	wakes(t, a, func() { rev = t.write(b, put("lock/a", `{}`)) }, at("lock/a", rev))
	wakes(t, b, func() { t.write(a, remove("lock/a")) }, at("lock/a", rev))
	wakes(t, b, func() { t.write(a, put("lock/a", `{}`)) }, at("lock/a", 0))
}

// waitMissesNothing has two sides that take turns: each writes when it sees
// the other's write. One lost notification and both wait for ever.
func waitMissesNothing(t *suite) {
	s := t.open()
	revs := []int64{
		t.write(s, put("turn/0", `{}`)),
		t.write(s, put("turn/1", `{}`)),
	}
	ctx, cancel := context.WithTimeout(t.ctx, 3*t.patience)
	defer cancel()
	handles := []driver.Store{s, t.open()}
	rounds := t.rounds(50)
	start := time.Now()
	err := parallel(2, func(me int) error {
		mine, theirs := fmt.Sprintf("turn/%d", me), fmt.Sprintf("turn/%d", 1-me)
		seen := revs[1-me]
		for i := range rounds {
			if me == 1 || i > 0 {
				if err := untilBroken(ctx, handles[me], []driver.Guard{at(theirs, seen)}); err != nil {
					return fmt.Errorf("round %d of side %d: %w", i, me, err)
				}
				snap, err := handles[me].Read(ctx, driver.Query{Keys: []string{theirs}})
				if err != nil {
					return err
				}
				seen = find(snap, theirs).Rev
			}
			if _, err := handles[me].Commit(ctx, driver.Batch{Writes: []driver.Write{put(mine, `{}`)}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v from one side to the other", time.Since(start)/time.Duration(2*rounds))
}

// waitMany has many waiters, each on a record of its own.
func waitMany(t *suite) {
	const n = 64
	s, other := t.open(), t.open()
	var writes []driver.Write
	for i := range n {
		writes = append(writes, put(fmt.Sprintf("lease/%d", i), `{}`))
	}
	rev := t.write(s, writes...)
	ctx, cancel := context.WithTimeout(t.ctx, t.patience)
	defer cancel()
	woken := make(chan error, 1)
	go func() {
		woken <- parallel(n, func(i int) error {
			return untilBroken(ctx, s, []driver.Guard{at(writes[i].Key, rev)})
		})
	}()
	time.Sleep(20 * time.Millisecond)
	t.write(other, writes[:n/2]...)
	t.write(s, writes[n/2:]...)
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
}

func waitContext(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`))
	guards := []driver.Guard{at("lock/a", rev), at("lock/none", 0), at("path/", rev)}

	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	if err := s.Wait(ended, guards); !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait with an ended context: %v", err)
	}

	ctx, cancel := context.WithTimeout(t.ctx, 50*time.Millisecond)
	defer cancel()
	if err := untilBroken(ctx, s, guards); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Wait past its deadline: %v", err)
	}

	ctx, cancel = context.WithCancel(t.ctx)
	done := make(chan error, 1)
	go func() { done <- untilBroken(ctx, s, guards) }()
	time.Sleep(20 * time.Millisecond)
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled Wait: %v", err)
		}
	case <-time.After(t.patience):
		t.Fatal("a cancelled Wait did not return")
	}
}

// waitQuiet: returning early is allowed, returning all the time is not.
func waitQuiet(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`))
	ctx, cancel := context.WithTimeout(t.ctx, 200*time.Millisecond)
	defer cancel()
	for returns := 0; s.Wait(ctx, []driver.Guard{at("lock/a", rev)}) == nil; returns++ {
		if returns == 100 {
			t.Fatal("Wait returned 100 times in a fifth of a second, and nothing changed")
		}
	}
}
