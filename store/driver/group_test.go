package driver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// Every commit of a group is applied once, or never if its caller left the queue;
// no more groups than allowed are under way at once, and nobody waits for ever.
func TestGroups(t *testing.T) {
	for _, most := range []int64{1, 2, 3} {
		var busy, revs, left atomic.Int64
		var applied sync.Map
		g := driver.NewGroups(func(group []*driver.Pending) {
			defer busy.Add(-1)
			if n := busy.Add(1); n > most || len(group) == 0 {
				t.Errorf("%d groups at once, of at most %d; this one has %d", n, most, len(group))
			}
			time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
			for _, p := range group {
				p.Rev = revs.Add(1)
				if _, twice := applied.LoadOrStore(p.Batch.Writes[0].Key, p.Rev); twice {
					t.Errorf("%s is applied twice", p.Batch.Writes[0].Key)
				}
			}
		}, int(most))
		var work sync.WaitGroup
		for i := range 16 {
			work.Go(func() {
				for j := range 100 {
					ctx, cancel := context.WithCancel(t.Context())
					if rand.IntN(3) == 0 {
						go cancel() // it may leave at any moment
					}
					key := fmt.Sprintf("lock/%d-%d", i, j)
					rev, err := g.Commit(ctx, driver.Batch{Writes: []driver.Write{{Key: key}}})
					cancel()
					at, done := applied.Load(key)
					switch {
					case err == nil && (!done || at != rev):
						t.Errorf("%s: revision %d, and it was applied at %v", key, rev, at)
					case errors.Is(err, context.Canceled):
						left.Add(1)
					case err != nil:
						t.Error(err)
					}
				}
			})
		}
		work.Wait()
		t.Logf("at most %d at once: %d were applied, %d callers left", most, revs.Load(), left.Load())
	}
}
