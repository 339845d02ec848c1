//go:build linux

package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/pgstore"
)

// TestFailovers: a PostgreSQL server whose commits wait for its standby dies
// under load, and the standby takes over, again and again. No reported grant
// is lost, no token is given out twice. TASKLOCK_FAILOVERS says how
// often.
func TestFailovers(t *testing.T) {
	n := 3
	if full() {
		n = long.Count(100)
	}
	if text := os.Getenv("TASKLOCK_FAILOVERS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		must(t, err)
	}
	primary := pgtest.Start(t, pgtest.Synchronous)
	standby, err := primary.Standby()
	must(t, err)
	t.Cleanup(standby.Close)
	f := newFailovers(t, primary, standby)
	f.url = primary.With(standby, primary.URL("postgres", "tasklock"))
	f.start(8)
	for i := 0; i < n && !f.stop.Load(); i++ {
		f.once(i)
		if i%10 == 9 {
			t.Logf("%d fail-overs: %d grants", i+1, len(f.tokens))
		}
	}
	f.finish()
	t.Logf("%d fail-overs under load: %d grants were acknowledged, %d calls ended unknown or unreachable and were repeated; lost %d, tokens given twice %d, holders at once %d",
		n, len(f.tokens), f.unknown.Load(), f.lost, f.twice, f.both)
}

// failovers is a pair of servers, workers who lock, and what they got.
type failovers struct {
	t                *testing.T
	primary, standby *pgtest.Server
	url              string // of both
	keys             int    // that the workers share

	ctx     context.Context // ends with the test, or when something was lost: nobody may release it any more
	end     context.CancelFunc
	stop    atomic.Bool
	work    sync.WaitGroup
	unknown atomic.Int64

	mu                sync.Mutex
	tokens            map[int64]string  // of all grants, and whose they are
	last              map[string]int64  // token of each key
	holder            map[string]string // of each key, as far as it knows
	fresh             []int64           // tokens since the last fail-over
	lost, twice, both int
}

func newFailovers(t *testing.T, primary, standby *pgtest.Server) *failovers {
	f := &failovers{t: t, primary: primary, standby: standby, keys: 3, tokens: map[int64]string{}, last: map[string]int64{}, holder: map[string]string{}}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f
}

func (f *failovers) start(workers int) {
	for i := range workers {
		d, err := pgstore.Open(context.Background(), f.url, &pgstore.Options{Create: true})
		must(f.t, err)
		st := store.New(d)
		owner := fmt.Sprintf("worker-%d", i)
		f.work.Go(func() {
			defer st.Close()
			for n := i; !f.stop.Load(); n++ {
				f.round(st, owner, fmt.Sprintf("key-%d", n%f.keys))
			}
		})
	}
}

func (f *failovers) finish() {
	if f.stop.Store(true); f.t.Failed() {
		f.end()
	}
	f.work.Wait()
	f.end()
}

// settle repeats a call until its outcome is known, and reports whether it was
// unknown before.
func (f *failovers) settle(call func() error) (repeated bool, err error) {
	for began := time.Now(); ; repeated = true {
		err = call()
		again := errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnreachable)
		if !again || f.ctx.Err() != nil || time.Since(began) > 5*time.Minute {
			return repeated, err
		}
		f.unknown.Add(1)
	}
}

// round acquires a key, holds it for a moment, and releases it.
func (f *failovers) round(st *store.Store, owner, key string) {
	r := lease.AcquireRequest{Keys: []string{key}, Owner: owner, ID: lease.NewID(), TTL: time.Hour, Wait: time.Minute}
	var g lease.Grant
	var held *lease.HeldError
	for {
		_, err := f.settle(func() (err error) { g, err = lease.Acquire(f.ctx, st, r); return err })
		if err == nil {
			break
		}
		if f.ctx.Err() != nil {
			return
		}
		if !errors.As(err, &held) { // a minute was not enough
			f.t.Errorf("%s, acquire %s: %v", owner, key, err)
			f.stop.Store(true)
			return
		}
	}
	f.granted(owner, key, g)
	time.Sleep(time.Millisecond)
	f.mu.Lock()
	f.holder[key] = ""
	f.mu.Unlock()
	var out lease.ReleaseResult
	repeated, err := f.settle(func() (err error) {
		out, err = lease.Release(context.Background(), st, lease.ReleaseRequest{Owner: owner, Keys: []string{key}, Token: g.Token})
		return err
	})
	if err != nil && !repeated || err == nil && len(out.Released) == 0 && !repeated {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lost++
		f.t.Errorf("%s held %s with token %d and could not release it: it was free, or %v", owner, key, g.Token, err)
		f.stop.Store(true)
	}
}

// granted notes a worker's grant.
func (f *failovers) granted(owner, key string, g lease.Grant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	who := owner + " for " + key
	if other := f.tokens[g.Token]; other != "" {
		f.twice++
		f.t.Errorf("token %d: %s has it, and %s had it", g.Token, who, other)
	}
	if other := f.holder[key]; other != "" {
		f.both++
		f.t.Errorf("%s is held by %s and by %s", key, owner, other)
	}
	if g.Token <= f.last[key] {
		f.t.Errorf("%s: token %d after %d", key, g.Token, f.last[key])
	}
	if g.Keys[0].Reentrant {
		f.t.Errorf("%s gave %s back, and has it still", owner, key)
	}
	f.tokens[g.Token], f.last[key], f.holder[key] = who, g.Token, owner
	f.fresh = append(f.fresh, g.Token)
}

// wait waits for what must come.
func (f *failovers) wait(what string, is func() bool) {
	f.t.Helper()
	for began := time.Now(); !is() && !f.stop.Load(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			f.t.Fatalf("%s: not after five minutes", what)
		}
	}
}

// grants waits for more of them.
func (f *failovers) grants(n int) {
	f.t.Helper()
	f.mu.Lock()
	before := len(f.tokens)
	f.mu.Unlock()
	f.wait("grants", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.tokens) >= before+n
	})
}

// once lets the workers work and then kills the primary. Every third time its
// standby was away before that, and an administrator has cancelled what waited
// for it: the dying server shows commits that the next one will not have.
func (f *failovers) once(i int) {
	f.grants(30)
	mode := "immediate"
	switch i % 3 {
	case 1:
		must(f.t, f.standby.Stop("fast"))
		for range 3 {
			f.wait("a commit that waits", func() bool {
				return f.primary.SQL(f.t, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") != "0"
			})
			time.Sleep(20 * time.Millisecond)
		}
	case 2:
		mode = "fast"
	}
	must(f.t, f.primary.Stop(mode))
	if i%3 == 1 {
		must(f.t, f.standby.Up())
	}
	must(f.t, f.standby.Promote())
	f.primary, f.standby = f.standby, f.primary
	f.kept()
	must(f.t, f.standby.Follow(f.primary))
}

// kept looks in the history of the server that took over, or is back, for all
// grants that were acknowledged before.
func (f *failovers) kept() {
	f.mu.Lock()
	fresh := f.fresh
	f.fresh = nil
	f.mu.Unlock()
	there := map[string]bool{}
	for _, rev := range strings.Fields(f.primary.SQL(f.t, "SELECT rev FROM tasklock.record WHERE key > 'event/' AND key < 'event0'")) {
		there[rev] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, token := range fresh {
		if !there[fmt.Sprint(token)] {
			f.lost++
			f.t.Errorf("the grant of token %d to %s is lost", token, f.tokens[token])
			f.stop.Store(true)
		}
	}
}
