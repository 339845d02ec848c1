package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

var concurrencyCases = []testCase{
	{name: "counter from several goroutines and handles", run: counterGoroutines},
	{name: "one winner", run: oneWinner},
	{name: "unrelated commits do not conflict", run: unrelated},
	{name: "commits through one handle have a revision each", run: ownRevisions},
	{name: "commits with and without a broken guard at once", run: mixedGuards},
	{name: "commits of which some are cancelled", run: someCancelled},
	{name: "a token moves in one step", run: tokenMoves},
	{name: "write skew is refused", run: writeSkew},
}

func counterGoroutines(t *suite) {
	handles := []driver.Store{t.open(), t.open(), t.open()}
	rounds := t.rounds(25)
	acked := make([][]string, t.workers())
	err := parallel(t.workers(), func(i int) error {
		for n := range rounds {
			nonce := fmt.Sprintf("%d-%d", i, n)
			if err := increment(t.ctx, handles[i%len(handles)], nonce); err != nil {
				return err
			}
			acked[i] = append(acked[i], nonce)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range acked {
		all = append(all, a...)
	}
	checkCounter(t, t.open(), all)
}

// oneWinner lets everybody create the same record at the same time.
func oneWinner(t *suite) {
	handles := []driver.Store{t.open(), t.open()}
	for round := range t.rounds(20) {
		key := fmt.Sprintf("lock/%d", round)
		var winners atomic.Int64
		err := parallel(t.workers(), func(i int) error {
			_, err := handles[i%2].Commit(t.ctx, driver.Batch{
				Guards: []driver.Guard{at(key, 0)},
				Writes: []driver.Write{put(key, fmt.Sprintf(`{"by":%d}`, i))},
			})
			if err == nil {
				winners.Add(1)
			}
			if errors.Is(err, driver.ErrConflict) {
				return nil
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := winners.Load(); n != 1 {
			t.Fatalf("%d of %d won %s", n, t.workers(), key)
		}
	}
}

// chain writes a record of its own several times, each guarded at the one
// before and, with a kind of its own, at that kind.
func chain(ctx context.Context, s driver.Store, name string, rounds int) error {
	key, kind := name+"/a", name+"/"
	rev := int64(0)
	for range rounds {
		next, err := s.Commit(ctx, driver.Batch{
			Guards: []driver.Guard{at(key, rev), at(kind, rev)},
			Writes: []driver.Write{put(key, `{}`)},
		})
		if err != nil {
			return fmt.Errorf("nobody else touches %s: %w", key, err)
		}
		if next <= rev {
			return fmt.Errorf("%s: revision %d after %d", key, next, rev)
		}
		rev = next
	}
	return nil
}

func unrelated(t *suite) {
	handles := []driver.Store{t.open(), t.open(), t.open()}
	rounds := t.rounds(30)
	err := parallel(t.workers(), func(i int) error {
		return chain(t.ctx, handles[i%len(handles)], fmt.Sprintf("own%d", i), rounds)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ownRevisions sends many commits through one handle at once: a driver may share
// the cost among them, and must not share the revision.
func ownRevisions(t *suite) {
	s := t.open()
	n := max(10, t.rounds(200))
	revs := make([]int64, n)
	err := parallel(n, func(i int) (err error) {
		revs[i], err = s.Commit(t.ctx, driver.Batch{Writes: []driver.Write{put(fmt.Sprintf("task/%d", i), fmt.Sprintf(`{"n":%d}`, i))}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	owner := map[int64]int{}
	for i, rev := range revs {
		if other, taken := owner[rev]; taken {
			t.Fatalf("commits %d and %d both got revision %d", other, i, rev)
		}
		owner[rev] = i
		if r := t.get(s, fmt.Sprintf("task/%d", i)); r.Rev != rev || string(r.Value) != fmt.Sprintf(`{"n":%d}`, i) {
			t.Fatalf("commit %d got revision %d; its record is at %d and holds %s", i, rev, r.Rev, r.Value)
		}
	}
}

// mixedGuards sends commits together of which half must be refused: each gets
// its own answer.
func mixedGuards(t *suite) {
	s := t.open()
	rev := t.write(s, put("lock/a", `{}`))
	for round := range t.rounds(10) {
		err := parallel(2*t.workers(), func(i int) error {
			key := fmt.Sprintf("task/%d-%d", round, i)
			b := driver.Batch{Guards: []driver.Guard{at("lock/a", rev)}, Writes: []driver.Write{put(key, `{}`)}}
			if i%2 == 1 {
				b.Guards[0].Rev--
			}
			_, err := s.Commit(t.ctx, b)
			if i%2 == 1 && errors.Is(err, driver.ErrConflict) {
				return nil
			}
			if i%2 == 1 {
				return fmt.Errorf("%s has a broken guard: error %v, want ErrConflict", key, err)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(t.scan(s, fmt.Sprintf("task/%d-", round))); got != t.workers() {
			t.Fatalf("round %d: %d records, want %d", round, got, t.workers())
		}
	}
}

// someCancelled cancels half of the commits while they are on their way. The
// others must not notice, and none may be half applied.
func someCancelled(t *suite) {
	s := t.open()
	for round := range t.rounds(10) {
		prefix := fmt.Sprintf("task/%d-", round)
		err := parallel(2*t.workers(), func(i int) error {
			ctx, cancel := context.WithCancel(t.ctx)
			defer cancel()
			if i%2 == 1 {
				time.AfterFunc(time.Duration(i*50)*time.Microsecond, cancel)
			}
			_, err := s.Commit(ctx, driver.Batch{Writes: []driver.Write{
				put(fmt.Sprintf("%s%03d-x", prefix, i), `{}`), put(fmt.Sprintf("%s%03d-y", prefix, i), `{}`),
			}})
			if i%2 == 1 && !errors.Is(err, driver.ErrConflict) {
				return nil // done or unknown: both are fine
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		records := t.scan(s, prefix)
		pairs := map[int64]int{}
		for _, r := range records {
			pairs[r.Rev]++
		}
		for rev, n := range pairs {
			if n != 2 {
				t.Fatalf("the commit at %d wrote %d of 2 records", rev, n)
			}
		}
		for i := 0; i < 2*t.workers(); i += 2 {
			if find(driver.Snapshot{Records: records}, fmt.Sprintf("%s%03d-x", prefix, i)).Rev == 0 {
				t.Fatalf("commit %d was acknowledged and is lost", i)
			}
		}
	}
}

// tokenMoves passes a token back and forth between two records while others
// look: every reader always sees it in exactly one place.
func tokenMoves(t *suite) {
	moveToken(t, t.open(), []driver.Store{t.open(), t.open()}, func(error) bool { return false })
}

// moveToken lets mover move and the lookers look. Errors that tolerate
// accepts are part of the game.
func moveToken(t *suite, mover driver.Store, lookers []driver.Store, tolerate func(error) bool) {
	t.Helper()
	places := []string{"token/a", "token/b"}
	for {
		_, err := mover.Commit(t.ctx, driver.Batch{Writes: []driver.Write{put(places[0], `{}`)}})
		if err == nil {
			break
		}
		if !tolerate(err) {
			t.Fatal(err)
		}
	}

	ctx, stop := context.WithCancel(t.ctx)
	looks := make([]error, len(lookers))
	var started, done sync.WaitGroup
	defer done.Wait()
	defer stop()
	for i, s := range lookers {
		started.Add(1)
		done.Go(func() {
			first := sync.OnceFunc(started.Done)
			defer first()
			for ctx.Err() == nil {
				if err := lookForToken(t.ctx, s, places); err != nil && !tolerate(err) {
					looks[i] = err
					return
				}
				first()
			}
		})
	}
	started.Wait()

	rounds, from := t.rounds(100), 0
	for range rounds {
		_, err := mover.Commit(t.ctx, driver.Batch{Writes: []driver.Write{remove(places[from]), put(places[1-from], `{}`)}})
		switch {
		case err == nil:
			from = 1 - from
		case !tolerate(err):
			t.Fatal(err)
		}
		// After an unknown outcome the same move is made again: it writes the
		// same result either way.
	}
	stop()
	done.Wait()
	if err := errors.Join(looks...); err != nil {
		t.Fatal(err)
	}
}

func lookForToken(ctx context.Context, s driver.Store, places []string) error {
	snap, err := s.Read(ctx, driver.Query{
		Keys:   places,
		Ranges: []driver.Range{{Prefix: "token/"}, {Prefix: places[0]}, {Prefix: places[1], Limit: -1}},
	})
	if err != nil {
		return err
	}
	// Selected by its key, by the common range and by its own: three times.
	if len(snap.Records) != 3 {
		return fmt.Errorf("the token was seen %d times in a snapshot, want 3: %q", len(snap.Records), keysOf(snap.Records))
	}
	for _, r := range snap.Records {
		if r.Key != snap.Records[0].Key || r.Rev != snap.Records[0].Rev || r.Rev > snap.Rev {
			return fmt.Errorf("one snapshot at %d has the token as %s at %d and as %s at %d",
				snap.Rev, snap.Records[0].Key, snap.Records[0].Rev, r.Key, r.Rev)
		}
	}
	return nil
}

// writeSkew: each of two commits guards what the other writes. One must lose.
func writeSkew(t *suite) {
	handles := []driver.Store{t.open(), t.open()}
	for round := range t.rounds(50) {
		keys := []string{fmt.Sprintf("lock/%d-a", round), fmt.Sprintf("lock/%d-b", round)}
		kinds := []string{fmt.Sprintf("a%d/", round), fmt.Sprintf("b%d/", round)}
		wins := make([]bool, 2)
		err := parallel(2, func(i int) error {
			b := driver.Batch{Guards: []driver.Guard{at(keys[1-i], 0)}, Writes: []driver.Write{put(keys[i], `{}`)}}
			if round%2 == 1 { // the same by kinds
				b = driver.Batch{Guards: []driver.Guard{at(kinds[1-i], 0)}, Writes: []driver.Write{put(kinds[i]+"x", `{}`)}}
			}
			_, err := handles[i].Commit(t.ctx, b)
			wins[i] = err == nil
			if errors.Is(err, driver.ErrConflict) {
				return nil
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if wins[0] == wins[1] {
			t.Fatalf("round %d: of two commits that exclude each other, won: %v", round, wins)
		}
	}
}
