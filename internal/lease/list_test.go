package lease_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

// pages reads a list page by page.
func (w *world) pages(r lease.ListRequest, between func()) (all []lease.Info) {
	w.Helper()
	for {
		out, err := lease.List(w.ctx, w.st, r)
		w.must(err)
		if len(out.Locks) > r.Limit {
			w.Fatalf("%d locks on a page of %d", len(out.Locks), r.Limit)
		}
		all = append(all, out.Locks...)
		if out.Next == "" {
			return all
		}
		if len(out.Locks) < r.Limit || out.Next <= r.After {
			w.Fatalf("after %q: %d locks, next %q", r.After, len(out.Locks), out.Next)
		}
		r.After = out.Next
		between()
	}
}

// Pages join to the list that one view shows, whoever is asked for and whatever the
// size of a page.
func TestListPages(t *testing.T) {
	near(t, func(w *world) {
		w.acquire("bob", "a", "path:a", "path:a!", "section:a", "job:a", "zz", "patg", "path;", "path:src/**", "ä", "Z", "a/b", "a.b")
		w.acquire("bob/sub", "a/c", "path:b", "job:b")
		w.grant(lease.AcquireRequest{Owner: "late", Keys: []string{"expired", "path:expired"}, TTL: time.Second})
		for i := range 60 {
			w.acquire(fmt.Sprint("w", i%3), fmt.Sprintf("n%02d", i), fmt.Sprintf("path:n%02d", i))
		}
		time.Sleep(time.Minute)
		for _, r := range []lease.ListRequest{
			{}, {Owner: "bob"}, {Owner: "w1"}, {Owner: "nobody"}, {Kind: lease.Task}, {Kind: lease.Path}, {Kind: lease.Job},
			{Kind: lease.Section}, {Kind: lease.Pool}, {Kind: lease.Task, Owner: "bob"}, {Kind: lease.Path, Owner: "w2"},
			{After: "n30"}, {After: "path:n30"}, {After: "path"}, {After: "path:"}, {After: "path;"}, {After: "nothing", Owner: "w1"}, {After: "~"},
		} {
			whole, err := lease.List(w.ctx, w.st, r)
			w.must(err)
			for _, size := range []int{1, 2, 7, 50, 500, 100_000} {
				r.Limit = size
				equal(w, fmt.Sprintf("%+v", r), w.pages(r, func() {}), append([]lease.Info(nil), whole.Locks...))
			}
		}
	})
}

// Locks and paths are records of two kinds. A part of a list ends where the first of
// them was not read further.
func TestListPartsOfTwoKinds(t *testing.T) {
	near(t, func(w *world) {
		const n = 700 // more than a part
		owner := func(i int) string { return fmt.Sprint("w", i/100) }
		for i := range n {
			w.acquire(owner(i), fmt.Sprintf("n%03d", i))
			w.acquire(owner(i), fmt.Sprintf("path:n%03d", i))
		}
		for i := 0; i < n; i += 100 {
			if got := w.pages(lease.ListRequest{Owner: owner(i), Limit: 150}, func() {}); len(got) != 200 {
				t.Errorf("%d locks of %s, not 200", len(got), owner(i))
			}
		}
		if got := w.pages(lease.ListRequest{Limit: 600}, func() {}); len(got) != 2*n {
			t.Errorf("%d locks, not %d", len(got), 2*n)
		}
	})
}

// Locks that are held throughout are on one page each, whoever comes and goes.
func TestListPagesUnderTraffic(t *testing.T) {
	near(t, func(w *world) {
		for i := range 40 {
			w.acquire("stays", fmt.Sprintf("k%02d", 2*i))
		}
		n := 0
		got := w.pages(lease.ListRequest{Limit: 3}, func() {
			for range 5 {
				key := fmt.Sprintf("k%02d", (n*14+1)%80)
				if n++; n%2 == 0 {
					w.acquire("guest", key+"/guest")
				} else {
					w.acquire("guest", key)
					w.release("guest", key)
				}
			}
		})
		var keys []string
		for i, l := range got {
			if i > 0 && got[i-1].Key >= l.Key {
				t.Errorf("%s after %s", l.Key, got[i-1].Key)
			}
			if l.Owner == "stays" {
				keys = append(keys, l.Key)
			}
		}
		if len(keys) != 40 {
			t.Errorf("%d of 40 locks: %v", len(keys), keys)
		}
	})
}

func TestListRefusesWhatIsNotText(t *testing.T) {
	near(t, func(w *world) {
		for _, after := range []string{"\xff", "a\x00b", strings.Repeat("x", lease.MaxKey+1)} {
			for _, limit := range []int{0, 5} {
				_, err := lease.List(w.ctx, w.st, lease.ListRequest{After: after, Limit: limit})
				as[*lease.InvalidError](w, err)
			}
		}
	})
}

// A page reads its own locks, with their leases and queues, however many there are.
// A list of one owner's locks reads the others in parts.
func TestListReadsItsPage(t *testing.T) {
	near(t, func(w *world) {
		counted := drivertest.NewCounted(w.mem)
		w.st = store.New(counted)
		read := map[int]drivertest.Counts{}
		const page = 50
		held := 0
		for _, n := range []int{400, 3200} {
			for ; held < n; held++ {
				w.acquire("me", fmt.Sprintf("k%05d", held))
			}
			counted.Take()
			out, err := lease.List(w.ctx, w.st, lease.ListRequest{After: "k00200", Limit: page})
			w.must(err)
			if read[n] = counted.Take(); len(out.Locks) != page || out.Next != "k00250" {
				t.Errorf("%d locks, next %q", len(out.Locks), out.Next)
			}
			t.Logf("a page of %d among %d: %+v", page, n, read[n])
		}
		if few, many := read[400], read[3200]; many.Records != few.Records || many.Reads != few.Reads || many.Records > 5*page {
			t.Errorf("a page of %d reads %+v among 400 locks, %+v among 3200", page, few, many)
		}
		out, err := lease.List(w.ctx, w.st, lease.ListRequest{Owner: "somebody else", Limit: page})
		w.must(err)
		if did := counted.Take(); len(out.Locks) > 0 || did.Reads < 6 || did.Records > int64(held+held/10) {
			t.Errorf("a walk over %d locks: %+v", held, did)
		}
	})
}
