package task_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

// abreast is a store on which racing claimers go in step: a commit waits until each of
// them has decided what to commit. So all of them decide on the same records, which is
// the worst that a race can be, on any machine.
type abreast struct {
	driver.Store
	mu           sync.Mutex
	racing, here int
	next         chan struct{}
}

// race runs fn n times side by side.
func (a *abreast) race(n int, fn func(i int)) {
	a.racing, a.next = n, make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			defer a.arrive(-1)
			fn(i)
		})
	}
	wg.Wait()
}

// arrive counts who commits (1) and who has ended (-1), and returns what to wait for.
func (a *abreast) arrive(n int) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > 0 {
		a.here++
	} else {
		a.racing--
	}
	next := a.next
	if a.here == a.racing {
		close(a.next)
		a.here, a.next = 0, make(chan struct{})
	}
	return next
}

func (a *abreast) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	<-a.arrive(1)
	return a.Store.Commit(ctx, b)
}

// Sixteen workers that look at once cost each other a bounded number of attempts: those
// who do not get the first task spread over the others. And the first task always goes
// to one of them.
func TestRacingClaimersSpread(t *testing.T) {
	const workers, rounds = 16, 6
	w, count := &world{T: t, ctx: t.Context()}, drivertest.NewCounted(memstore.New())
	w.st = store.New(drivertest.NewStrict(t, count))
	w.add(many(300, func(i int) task.New { return task.New{ID: fmt.Sprintf("n%03d", i), Title: fmt.Sprintf("task %03d", i)} })...)
	in := &abreast{Store: count}
	var all drivertest.Counts
	for round := range rounds {
		first, err := task.Next(w.ctx, w.st, task.NextRequest{Acquire: lease.AcquireRequest{Owner: "looker"}})
		w.must(err)
		count.Take()
		var got [workers]string
		in.race(workers, func(i int) {
			st := store.New(drivertest.NewStrict(t, in)) // a process of its own
			out, err := task.Next(w.ctx, st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: fmt.Sprint("worker", round, i), TTL: time.Hour}})
			if err != nil {
				t.Error(err)
			}
			got[i] = out.Task.ID
		})
		did := count.Take()
		t.Logf("round %d: %+v", round, did)
		all.Reads, all.Refused = all.Reads+did.Reads, all.Refused+did.Refused
		owner := map[string]int{}
		for i, id := range got {
			if other, twice := owner[id]; twice {
				t.Errorf("%s went to %d and %d", id, other, i)
			}
			owner[id] = i
		}
		if _, ok := owner[first.Task.ID]; !ok {
			t.Errorf("round %d passed over %s: %v", round, first.Task.ID, got)
		}
	}
	claims := float64(workers * rounds)
	reads, refused := float64(all.Reads)/claims, float64(all.Refused)/claims
	t.Logf("%.2f reads and %.2f refused commits for a claim", reads, refused)
	if reads > 8 || refused > 1.6 {
		t.Errorf("%.2f reads and %.2f refused commits for a claim", reads, refused)
	}
}
