//go:build linux

package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

const workerEnv = "TORTURE_WORKER"

// workerSpec is what the controller tells a worker.
type workerSpec struct {
	URL, Dir, Binary       string
	Mode                   Mode
	Slot, Row              int
	Rounds, Keys, Pool     int
	TTL, Wait              time.Duration
	Tries, Batches, Probes int
	Outages                bool
	Seed                   uint64
}

// Open opens the store that a URL names, and makes it where there is none.
type Open func(ctx context.Context, url string) (driver.Store, error)

// Serve is called first in TestMain of a test binary that serves as a worker:
// in a process that a controller started it works and exits, elsewhere it
// returns.
func Serve(open Open) {
	var err error
	switch {
	case os.Getenv(workerEnv) != "":
		err = workerMain(open)
	case os.Getenv(dumpEnv) != "":
		err = dumpMain(open)
	case os.Getenv(childEnv) != "":
		err = childMain()
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A client acquires and releases leases in one of the modes.
type client interface {
	// acquire notes the answer in o; the grant is nil unless that is ok.
	acquire(o *op, wait time.Duration) grant
	// probe does things that must be refused, with the token of a grant that
	// has ended.
	probe(j *journal, key string, token int64)
}

// A grant is a lease in a worker's hands.
type grant interface {
	work(w *worker, o op) // usually w.work
	trusted() bool        // the lease cannot have been given away yet
	renew(j *journal)     // a heartbeat, if the worker has to send one
	release(o *op)
}

type worker struct {
	workerSpec
	reg    *register
	log    *journal
	rand   *rand.Rand
	client client
}

func workerMain(open Open) error {
	var w worker
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &w.workerSpec); err != nil {
		return err
	}
	var err error
	if w.reg, err = openRegister(filepath.Join(w.Dir, "register")); err != nil {
		return err
	}
	if w.log, err = openJournal(w.Dir, w.Row); err != nil {
		return err
	}
	w.rand = rand.New(rand.NewPCG(w.Seed, uint64(w.Row)))
	switch w.Mode {
	case Binary:
		w.client = &binary{worker: &w}
	default:
		lib, err := newLibrary(&w, open)
		if err != nil {
			return err
		}
		defer lib.close()
		w.client = lib
	}
	for w.reg.progress(w.Slot) < w.Rounds {
		w.round()
		w.reg.done(w.Slot)
	}
	return nil
}

// chance is true n times out of 100.
func (w *worker) chance(n int) bool { return w.rand.IntN(100) < n }

// round takes some keys, works on what they protect, and releases them.
func (w *worker) round() {
	g, o := w.take(w.someKeys())
	if g == nil {
		return
	}
	w.reg.setState(w.Row, holding)
	g.work(w, o)
	w.reg.setState(w.Row, releasing)
	r := op{Kind: opRelease, Keys: o.Keys, Owner: o.Owner, Tokens: o.Tokens}
	if at := now(); g.trusted() && !o.Untold {
		r.Until = at
	}
	r = w.log.call(r)
	g.release(&r)
	w.log.done(r)
	w.reg.setState(w.Row, idle)
	if w.chance(w.Probes) {
		w.client.probe(w.log, o.Keys[0], o.token(o.Keys[0]))
	}
}

func (w *worker) someKeys() []string {
	if w.Pool > 0 {
		return []string{poolKey}
	}
	n := 1
	if w.Keys > 1 && w.chance(w.Batches) {
		n = 2 + w.rand.IntN(min(3, w.Keys-1))
	}
	var keys []string
	for _, i := range w.rand.Perm(w.Keys)[:n] {
		keys = append(keys, keyName(i))
	}
	slices.Sort(keys)
	return keys
}

// take waits for its turn, or tries until it is lucky or the time is over.
func (w *worker) take(keys []string) (grant, op) {
	w.reg.setState(w.Row, acquiring)
	defer w.reg.setState(w.Row, idle)
	wait := w.Wait
	if w.chance(w.Tries) {
		wait = 0
	}
	take, slots := w.weight()
	for start := time.Now(); ; {
		o := w.log.call(op{Kind: opAcquire, Keys: keys, Take: take, Slots: slots, TTL: w.TTL, Waits: wait > 0})
		g := w.client.acquire(&o, wait)
		w.log.done(o)
		again := o.Result == isHeld && wait == 0 || o.Unreached // whoever did not reach the server comes again
		if g != nil || !again || time.Since(start) > w.Wait {
			return g, o
		}
		time.Sleep(time.Duration(1+w.rand.IntN(20)) * time.Millisecond)
	}
}

// work is the critical section: a few fenced writes within 0 to 2 ms, and
// with slots of a pool up to a quarter of the ttl, and once in fifty rounds longer than the ttl, so that the lease must be renewed.
func (w *worker) work(g grant, o op) {
	if !g.trusted() || !w.each(g, o, w.reg.enter) {
		return
	}
	end := time.Now().Add(time.Duration(w.rand.IntN(2000)) * time.Microsecond)
	switch {
	case w.chance(2):
		end = time.Now().Add(w.TTL * 3 / 2)
	case w.Pool > 0:
		end = time.Now().Add(w.slotTime())
	}
	for g.trusted() {
		if !w.each(g, o, w.reg.write) {
			return
		}
		left := time.Until(end)
		if left <= 0 {
			break
		}
		time.Sleep(min(left, w.TTL/10))
		g.renew(w.log)
	}
	w.each(g, o, w.reg.leave)
}

// each does one thing to all keys in the register, until it is refused.
func (w *worker) each(g grant, o op, do func(key int, token int64, row int) (entry, bool)) bool {
	for _, key := range o.protects() {
		if found, ok := do(indexOf(key), o.token(key), w.Row); !ok {
			w.pushed(g, o, key, found)
			return false
		}
	}
	return true
}

// pushed notes that someone else was found in the register. That is an
// overlap if the lease may be trusted even now, or if the token is our own.
func (w *worker) pushed(g grant, o op, key string, found entry) {
	p := w.log.call(op{Kind: opPushed, Keys: []string{key}, Owner: o.Owner, Tokens: o.Tokens})
	p.Trusted = g.trusted() || found.token() == o.token(key) && found.row() != w.Row
	p.Found = found.String()
	p.Result = isOK
	w.log.done(p)
}
