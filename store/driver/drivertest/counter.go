package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// The counter is the suite's measure of lost and doubled updates. Every
// increment is a read and a guarded commit that also writes a record of the
// increment's own nonce; so in the end the store itself tells how many took
// place, which ones, and in what order.
const counterKey = "counter/a"

type count struct {
	N int `json:"n"`
}

func (c count) write(key string) driver.Write {
	value, _ := json.Marshal(c) // an int marshals
	return driver.Write{Key: key, Value: value}
}

func parseCount(r driver.Record) (count, error) {
	if r.Rev == 0 {
		return count{}, nil
	}
	var c count
	if err := json.Unmarshal(r.Value, &c); err != nil {
		return count{}, fmt.Errorf("%s holds %s: %w", r.Key, r.Value, err)
	}
	return c, nil
}

// increment adds one to the counter under the nonce, once: after an error
// that leaves the outcome unknown, the same call looks for the nonce first.
func increment(ctx context.Context, s driver.Store, nonce string) error {
	nonceKey := "nonce/" + nonce
	for {
		snap, err := s.Read(ctx, driver.Query{Keys: []string{counterKey, nonceKey}})
		if err != nil {
			return err
		}
		if find(snap, nonceKey).Rev != 0 {
			return nil
		}
		counter := find(snap, counterKey)
		c, err := parseCount(counter)
		if err != nil {
			return err
		}
		c.N++
		pause()
		_, err = s.Commit(ctx, driver.Batch{
			Guards: []driver.Guard{at(counterKey, counter.Rev), at(nonceKey, 0)},
			Writes: []driver.Write{c.write(counterKey), c.write(nonceKey)},
			Note:   "increment " + nonce,
		})
		if err == nil || !errors.Is(err, driver.ErrConflict) {
			return err
		}
		time.Sleep(rand.N(2 * time.Millisecond)) // someone was faster
	}
}

// checkCounter requires that the counter is the number of increments, that no
// two of them counted to the same number, and that each acknowledged one is
// among them.
func checkCounter(t *suite, s driver.Store, acked []string) {
	t.Helper()
	snap := t.read(s, driver.Query{Keys: []string{counterKey}, Ranges: []driver.Range{{Prefix: "nonce/"}}})
	total, err := parseCount(find(snap, counterKey))
	if err != nil {
		t.Fatal(err)
	}
	byNumber, byNonce := map[int]string{}, map[string]bool{}
	for _, r := range snap.Records {
		if r.Key == counterKey {
			continue
		}
		c, err := parseCount(r)
		if err != nil {
			t.Fatal(err)
		}
		if c.N < 1 || c.N > total.N || byNumber[c.N] != "" {
			t.Fatalf("%s counted to %d, and so did %q; the counter is at %d", r.Key, c.N, byNumber[c.N], total.N)
		}
		byNumber[c.N], byNonce[r.Key] = r.Key, true
	}
	if len(byNumber) != total.N {
		t.Fatalf("the counter is at %d after %d increments", total.N, len(byNumber))
	}
	for _, nonce := range acked {
		if !byNonce["nonce/"+nonce] {
			t.Fatalf("increment %s was acknowledged and is lost", nonce)
		}
	}
	t.Logf("%d increments, %d acknowledged", total.N, len(acked))
}
