//go:build linux

package etcdstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/etcdtest"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/etcdstore"
)

// traffic is increments that never stop, from several handles.
type traffic struct {
	t    *testing.T
	done atomic.Int64
	stop context.CancelFunc
	work sync.WaitGroup
}

func start(t *testing.T, url string) *traffic {
	ctx, cancel := context.WithCancel(t.Context())
	tr := &traffic{t: t, stop: cancel}
	t.Cleanup(func() { cancel(); tr.work.Wait() })
	for h := range 3 {
		st := store.New(open(t, url))
		for w := range 2 {
			tr.work.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					err := increment(t.Context(), st, fmt.Sprintf("%d-%d-%d", h, w, i))
					if err != nil {
						t.Errorf("increment: %v", err)
						return
					}
					tr.done.Add(1)
				}
			})
		}
	}
	return tr
}

// goesOn requires that n more increments come through.
func (tr *traffic) goesOn(n int64) {
	tr.t.Helper()
	began, from := time.Now(), tr.done.Load()
	for tr.done.Load() < from+n {
		if time.Since(began) > 90*time.Second {
			tr.t.Fatalf("%d increments in %v", tr.done.Load()-from, time.Since(began))
		}
		time.Sleep(5 * time.Millisecond)
	}
	tr.t.Logf("%d increments in %v", n, time.Since(began).Round(time.Millisecond))
}

// end stops the traffic and requires that each increment counted once.
func (tr *traffic) end(url string) {
	tr.t.Helper()
	tr.stop()
	tr.work.Wait()
	counted(tr.t, store.New(open(tr.t, url)), int(tr.done.Load()))
}

// The leader is killed in the middle of everything, and so is its successor
// after it came back.
func TestLeaderKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	c := three(t)
	url := c.URL(newPrefix())
	tr := start(t, url)
	for range 2 {
		tr.goesOn(50)
		leader, err := c.Leader()
		must(t, err)
		c.Kill(leader)
		tr.goesOn(50)
		must(t, c.Run(leader))
		for range 20 { // at all members, the one that has just come back too
			open(t, url)
		}
	}
	tr.goesOn(50)
	tr.end(url)
	snap, err := open(t, url).Read(t.Context(), driver.Query{})
	must(t, err)
	if snap.Rev >= 1<<32 {
		t.Errorf("revision %d: a member that comes back was taken for a backup", snap.Rev)
	}
}

// Three members with passwords, and a user who may do nothing but use the prefix:
// the work goes on when tokens run out, when a member that forgot them comes
// back, and when another one leads.
func TestGuardedCluster(t *testing.T) {
	t.Parallel() // it mostly waits
	long.NotShort(t)
	const tokenTime = 2 * time.Second
	c := etcdtest.Start(t, 3, "--unsafe-no-fsync", "--auth-token-ttl", "2")
	prefix := newPrefix()
	must(t, c.Guard(prefix))
	url := c.URLAs(etcdtest.User, etcdtest.Password, prefix)
	tr := start(t, url)
	waited := waiter(t, open(t, url))
	tr.goesOn(30)
	for range long.Loop(t, 1, 90*time.Second) {
		time.Sleep(tokenTime + time.Second) // nobody renews a token that is in use: it runs out
		tr.goesOn(30)
		leader, err := c.Leader()
		must(t, err)
		c.Kill(leader)
		tr.goesOn(30)
		must(t, c.Run(leader))
		for range 6 { // at all members, the one that has just come back too
			open(t, url)
		}
		tr.goesOn(30)
	}
	_, err := open(t, url).Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/waited"), lasting("lease/waited", time.Minute)}})
	must(t, err)
	must(t, <-waited)
	tr.end(url)
	r, err := etcdstore.Inspect(t.Context(), url)
	must(t, err)
	if len(r.Problems) > 0 || len(strings.Fields(strings.Split(r.Facts, ",")[0])) != 1+3 {
		t.Errorf("doctor of a user who may only use the prefix: %+v", r)
	}
}

// A follower stands still, and then the leader: no connection ends, nobody
// answers on them.
func TestMemberPaused(t *testing.T) {
	t.Parallel() // it mostly waits
	long.NotShort(t)
	pause := 4 * time.Second
	if long.Asked() {
		pause = 12 * time.Second
	}
	c := three(t)
	url := c.URL(newPrefix())
	tr := start(t, url)
	tr.goesOn(50)
	for _, off := range []int{1, 0} {
		leader, err := c.Leader()
		must(t, err)
		victim := (leader + off) % 3
		must(t, c.Pause(victim))
		over := time.After(pause)
		tr.goesOn(20)
		<-over
		must(t, c.Resume(victim))
		tr.goesOn(20)
	}
	tr.end(url)
}

// A leader that dies takes nothing away: its leases begin again with their
// whole ttl at the next one. Late is fine, early never.
func TestLeaseOutlivesItsLeader(t *testing.T) {
	t.Parallel() // it mostly waits
	long.NotShort(t)
	const ttl = 3 * time.Second
	c := three(t)
	s := open(t, c.URL(newPrefix()))
	called := time.Now()
	_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{lasting("lease/a", ttl)}})
	must(t, err)
	leader, err := c.Leader()
	must(t, err)
	time.Sleep(ttl / 3)
	c.Kill(leader)
	for {
		snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lease/a"}})
		lived := time.Since(called)
		if err == nil && overIn(t, snap, ttl) {
			if lived < ttl {
				t.Fatalf("ttl %v, lived %v", ttl, lived)
			}
			t.Logf("ttl %v, lived %v", ttl, lived)
			return
		}
		if lived > time.Minute {
			t.Fatalf("ttl %v, lives after %v (%v)", ttl, lived, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// The past is dropped and the database rewritten again and again while others
// work, wait, and read more than one page.
func TestCompactedUnderTraffic(t *testing.T) {
	c := one(t)
	prefix := newPrefix()
	url := c.URL(prefix)
	s := open(t, url)
	var writes []driver.Write
	for i := range 2500 {
		writes = append(writes, put(fmt.Sprintf("task/%04d", i)))
	}
	_, err := s.Commit(t.Context(), driver.Batch{Writes: writes})
	must(t, err)
	tr := start(t, url)
	waited := waiter(t, s)
	stop := compact(t, c)
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		snap, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "task/"}}})
		if err != nil && !driver.Refusal(err) { // it may take its time while it is rewritten
			continue
		}
		must(t, err)
		if len(snap.Records) != len(writes) {
			t.Fatalf("%d records of %d", len(snap.Records), len(writes))
		}
	}
	tr.goesOn(100)
	_, err = s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lock/waited")}})
	must(t, err)
	must(t, <-waited)
	stop()
	tr.end(url)
}

// waiter tells when there is a record lock/waited. Like every waiter it looks
// after each wait.
func waiter(t *testing.T, s driver.Store) <-chan error {
	waited := make(chan error, 1)
	st := store.New(s)
	go func() {
		var err error
		for there := false; err == nil && !there; {
			err = st.Wait(t.Context(), []driver.Guard{{Key: "lock/waited"}})
			snap, bad := s.Read(t.Context(), driver.Query{Keys: []string{"lock/waited"}})
			there = bad == nil && len(snap.Records) > 0
		}
		waited <- err
	}()
	return waited
}

// compact drops the past, all of it, until stop is called.
func compact(t *testing.T, c *etcdtest.Cluster) (stop func()) {
	cl := client(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			head, err := cl.Get(ctx, "x")
			if err != nil {
				continue
			}
			_, _ = cl.Compact(ctx, head.Header.Revision) // again at the same one is an error, and fine
			time.Sleep(5 * time.Millisecond)
			if i%20 == 0 {
				_, _ = cl.Defragment(ctx, c.Members[0].Addr)
			}
		}
	})
	return func() { cancel(); work.Wait() }
}

// A leader that stood still for longer than a lease lasts goes on believing that
// it leads, and that the lease is over. It must not end what was renewed at
// its successor meanwhile.
func TestStaleLeaderEndsNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	long.NotShort(t)
	const ttl = 3 * time.Second
	c := three(t)
	s := open(t, c.URL(newPrefix()))
	leader, err := c.Leader()
	must(t, err)
	began := time.Now()
	var renewed time.Time // when the last one that succeeded was called
	renewals := 0
	paused, resumed := false, false
	for time.Since(began) < 9*time.Second {
		switch passed := time.Since(began); {
		case !paused && passed > time.Second:
			paused = true
			must(t, c.Pause(leader))
		case !resumed && passed > 6*time.Second:
			resumed = true
			must(t, c.Resume(leader))
		}
		called := time.Now()
		if _, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{lasting("lease/a", ttl)}}); err == nil {
			renewed = called
			renewals++
		}
		snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lease/a"}})
		if err == nil && len(snap.Records) > 0 && overIn(t, snap, ttl) && time.Since(renewed) < ttl {
			t.Fatalf("renewed %v ago with a ttl of %v, and over", time.Since(renewed), ttl)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%d renewals", renewals)
}
