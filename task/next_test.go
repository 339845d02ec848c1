package task_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

func TestOrderOfNext(t *testing.T) {
	bubble(t, func(w *world) {
		for _, s := range []struct {
			name     string
			priority int
		}{{"late", task.Low}, {"early", task.High}, {"B", task.Medium}} {
			w.must(w.section(task.SectionRequest{Name: s.name, New: true, Shared: ptr(true), Priority: &s.priority}))
		}
		add := func(section, id string, priority int) {
			w.add(task.New{ID: id, Title: id, Section: section, Priority: priority})
			time.Sleep(time.Second)
		}
		add("late", "l1", 1)
		add("B", "b2", task.Medium)
		add("B", "b1", task.High)
		add("", "n2", task.Medium)
		add("", "n3", task.Medium)
		add("", "n1", 1)
		add("early", "e1", task.Low)
		w.add(many(12, func(i int) task.New {
			return task.New{ID: fmt.Sprint("e1", i), Title: "x", Section: "early", Priority: 950}
		})...)

		want := []string{"e1"}
		for i := range 12 { // a list is worked in its own order
			want = append(want, fmt.Sprint("e1", i))
		}
		want = append(want, "n1", "n2", "n3", "b1", "b2", "l1")
		equal(w, "list", w.list(task.ListRequest{}), want)
		for _, id := range want {
			w.nextIs("A", id)
		}
		w.nextIs("A", "")
	})
}

// A section is looked through to its end before the next one is: its tasks come
// first however many of them are not for the caller.
func TestNextKeepsTheOrderAmongMany(t *testing.T) {
	w := large(t)
	w.must(w.section(task.SectionRequest{Name: "early", New: true, Shared: ptr(true), Priority: ptr(task.High)}))
	w.add(many(40, func(i int) task.New { return task.New{ID: fmt.Sprint("e", i), Title: "x", Section: "early"} })...)
	w.add(task.New{ID: "wanted", Title: "x", Section: "early", Labels: []string{"L"}}, task.New{ID: "late", Title: "x", Labels: []string{"L"}})
	out, err := task.Next(w.ctx, w.st, task.NextRequest{Label: "L", Acquire: lease.AcquireRequest{Owner: "A"}})
	w.must(err)
	equal(w, "with the label", out.Task.ID, "wanted")
	for i := range 40 {
		w.nextIs(fmt.Sprint("worker ", i), fmt.Sprint("e", i))
	}
	w.nextIs("A", "wanted")
	w.nextIs("A", "late")
}

func TestNextPassesOver(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "held"), in("S", "same section"), in("T", "locked by hand"), in("", "blocked"), in("", "needs", "blocked"),
		in("", "review"), in("", "failed"), task.New{ID: "labelled", Title: "x", Labels: []string{"api"}}, in("", "free"))
	w.claim("B", "held")
	w.acquire("B", "locked by hand")
	w.must(w.do(task.Block, "B", 0, "blocked"))
	w.must(w.do(task.Submit, "B", 0, "review"))
	w.must(w.do(task.Fail, "B", 0, "failed"))
	get := func(r task.NextRequest) (string, error) {
		r.Acquire.Owner = "A"
		out, err := task.Next(w.ctx, w.st, r)
		return out.Task.ID, err
	}
	for _, c := range []struct {
		r    task.NextRequest
		want string
	}{
		{task.NextRequest{}, "labelled"},
		{task.NextRequest{Label: "api"}, "labelled"},
		{task.NextRequest{Label: "none"}, ""},
		{task.NextRequest{Section: "S"}, ""},
		{task.NextRequest{Section: "T"}, ""},
	} {
		w.unchanged("a look", func() {
			if id, err := get(c.r); id != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%+v: %q, %v, want %q", c.r, id, err, c.want)
			}
		})
	}
	_, err := get(task.NextRequest{Section: "none"})
	as[*task.NotFoundError](w, err)
	_, err = get(task.NextRequest{Section: "S"})
	none := as[*task.NothingReadyError](w, err)
	if len(none.Closed) != 1 || none.Closed[0].Task.ID != "same section" || none.Closed[0].Lock.Owner != "B" {
		t.Errorf("%+v", none.Closed)
	}
	w.nextIs("A", "labelled")
	w.nextIs("A", "free")
	w.nextIs("B", "same section") // who has the section goes on there
	w.nextIs("A", "")
}

// A candidate that nobody holds but someone waits for is not next, and does
// not keep what follows from being found.
func TestNextBehindAWaiter(t *testing.T) {
	bubble(t, func(w *world) {
		w.add(in("S", "a"), in("S", "b"), in("", "c"))
		w.acquire("B", "section:S")
		_, err := w.tryAcquire(lease.AcquireRequest{Owner: "C", Keys: []string{"a"}, Wait: time.Second})
		as[*lease.HeldError](w, err) // C's place stays for some time
		w.must(w.release("B", "section:S"))
		w.nextIs("A", "c")
		w.nextIs("A", "")
		time.Sleep(time.Minute)
		w.nextIs("A", "a")
	})
}

func TestNextWaits(t *testing.T) {
	for name, c := range map[string]struct {
		within time.Duration
		then   func(w *world)
	}{
		"for a release":       {0, func(w *world) { w.must(w.release("B", "held")) }},
		"for a completion":    {0, func(w *world) { w.must(w.do(task.Unclaim, "B", 0, "held")) }},
		"for a new task":      {0, func(w *world) { w.add(in("", "new")) }},
		"for a dependency":    {0, func(w *world) { w.must(w.do(task.Complete, "B", 0, "dep")) }},
		"for a section":       {0, func(w *world) { w.must(w.section(task.SectionRequest{Name: "skipped", Skipped: ptr(false)})) }},
		"for a section's end": {0, func(w *world) { w.must(w.release("B", "section:S")) }},
		"for an expiry":       {2 * time.Second, func(*world) { time.Sleep(time.Hour) }},
		"in vain":             {-1, func(*world) { time.Sleep(59 * time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			near(t, func(w *world) {
				w.add(in("", "held"), in("", "dep"), in("", "needs", "dep"), in("skipped", "s"), in("S", "in S"))
				w.must(w.section(task.SectionRequest{Name: "skipped", Skipped: ptr(true)}))
				w.claim("B", "held")
				w.claim("B", "dep")
				w.acquire("B", "section:S")
				wait := 3 * time.Hour
				if c.within < 0 {
					wait = 30 * time.Minute
				}
				told := 0
				start := time.Now()
				var id string
				var err error
				var took time.Duration
				done := make(chan struct{})
				go func() {
					defer close(done)
					var out task.NextResult
					out, err = task.Next(w.ctx, w.st, task.NextRequest{
						Claim: true, Wait: wait, Waiting: func() { told++ },
						Acquire: lease.AcquireRequest{Owner: "A"},
					})
					id, took = out.Task.ID, time.Since(start)
				}()
				w.settle()
				acted := time.Since(start)
				c.then(w)
				if c.within == 0 {
					w.settle()
				}
				<-done
				equal(w, "told", told, 1)
				if c.within < 0 {
					w.want(err, task.ErrNothingReady)
					return
				}
				w.must(err)
				if late := took - acted - time.Hour; c.within > 0 && (late < -time.Second || late > c.within) || c.within == 0 && took-acted > 10*time.Millisecond {
					t.Errorf("%s came after %s", id, took)
				}
			})
		})
	}
}

func TestNextOnce(t *testing.T) {
	w := newWorld(t)
	w.add(in("S", "a"), in("S", "b"), in("", "c"))
	ask := func() (task.NextResult, error) {
		return task.Next(w.ctx, w.st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: "A", ID: "r1"}})
	}
	first, err := ask()
	w.must(err)
	again, err := ask()
	w.must(err)
	if first.Task.ID != again.Task.ID || first.Grant.Token != again.Grant.Token {
		t.Errorf("%s with %d, then %s with %d", first.Task.ID, first.Grant.Token, again.Task.ID, again.Grant.Token)
	}
	w.must(w.do(task.Complete, "A", 0, first.Task.ID))
	_, err = ask() // it has had its effect
	w.want(err, lease.ErrLost)

	// The same request twice at the same time has one effect too.
	var wg sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		wg.Go(func() {
			out, err := task.Next(w.ctx, w.st, task.NextRequest{Claim: true, Acquire: lease.AcquireRequest{Owner: "A", ID: "r2"}})
			if err != nil {
				t.Error(err)
			}
			got[i] = out.Task.ID
		})
	}
	wg.Wait()
	if slices.Sort(got); got[0] != got[7] {
		t.Errorf("one request got %q", got)
	}
}

func TestTwoWorkersNeverTheSame(t *testing.T) {
	for _, section := range []string{"", "shared", "S"} {
		t.Run(section, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.section(task.SectionRequest{Name: "shared", New: true, Shared: ptr(true)}))
			const workers, n = 8, 40
			for i := range n {
				name := section
				if section == "S" {
					name = fmt.Sprint("S", i%5)
				}
				w.add(task.New{Title: fmt.Sprint("task ", i), Section: name})
			}
			var mu sync.Mutex
			got := map[string]string{}
			var wg sync.WaitGroup
			for i := range workers {
				wg.Go(func() {
					for owner := fmt.Sprint("W", i); ; {
						id, err := w.next(owner)
						if err != nil {
							w.want(err, task.ErrNothingReady)
							mu.Lock()
							left := n - len(got)
							mu.Unlock()
							if left == 0 {
								return
							}
							time.Sleep(time.Millisecond)
							continue
						}
						mu.Lock()
						if got[id] != "" {
							t.Errorf("%s went to %s and %s", id, got[id], owner)
						}
						got[id] = owner
						mu.Unlock()
						if err := w.do(task.Complete, owner, 0, id); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
