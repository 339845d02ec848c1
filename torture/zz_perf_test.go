//go:build linux

package torture

import (
	"context"
	"fmt"
	"path/filepath"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/sqlitestore"
	"github.com/tasklock/tasklock/task"
)

func TestZZPerf(t *testing.T) {
	ctx := context.Background()
	for _, sections := range []int{0, 10, 100} {
		d, err := sqlitestore.Open(ctx, filepath.Join(t.TempDir(), "x.db"), &sqlitestore.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		st := store.New(d)
		began := time.Now()
		yes := true
		for i := range sections {
			if _, err := task.SetSection(ctx, st, task.SectionRequest{Name: fmt.Sprint("S", i), New: true, Shared: &yes}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 10 {
			var list []task.New
			for j := range 1000 {
				n := task.New{Title: fmt.Sprint("task ", i, j)}
				if sections > 0 {
					n.Section = fmt.Sprint("S", (i*1000+j)%sections)
				}
				list = append(list, n)
			}
			if _, err := task.Add(ctx, st, task.AddRequest{Tasks: list}); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Printf("%d sections: add 10,000 in %s\n", sections, time.Since(began))
		for range 2 {
			began = time.Now()
			l, err := task.List(ctx, st, task.ListRequest{})
			fmt.Println("list", len(l.Tasks), err, time.Since(began))
		}
		for _, c := range []struct{ workers int; complete bool }{{1, true}, {8, true}, {16, true}, {1, false}, {8, false}, {16, false}} {
			workers, complete := c.workers, c.complete
			var mu sync.Mutex
			var all []time.Duration
			var wg sync.WaitGroup
			began = time.Now()
			for w := range workers {
				wg.Go(func() {
					for range 320 / workers {
						s := time.Now()
						out, err := task.Next(ctx, st, task.NextRequest{Claim: true, Acquire: lock.AcquireRequest{Owner: fmt.Sprint("w", w)}})
						if err != nil {
							t.Error(err)
						}
						took := time.Since(s)
						if complete {
							if _, err := task.Do(ctx, st, task.DoRequest{Verb: task.Complete, Tasks: []string{out.Task.ID}, Owner: fmt.Sprint("w", w), Token: out.Grant.Token}); err != nil {
								t.Error(err)
							}
						}
						mu.Lock()
						all = append(all, took)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			took := time.Since(began)
			sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
			fmt.Printf("next --claim, %d workers, complete %v: %.0f/s, p50 %s p99 %s\n", workers, complete, float64(len(all))/took.Seconds(), all[len(all)/2], all[len(all)*99/100])
		}
		st.Close()
	}
}
