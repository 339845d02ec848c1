// Package locktest checks that the rules of package lease hold over a store:
// for the tests of drivers, which package lease must not know.
package locktest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tasklock/tasklock/store"
)

const (
	clients   = 8
	steps     = 50 // of each client
	slowSteps = 12
	keys      = 3
)

// Linearizable lets concurrent clients acquire, renew, release, break, check
// and write behind a fence, and requires that some order of all these calls,
// each at one instant between its call and its return, explains every answer.
// open is called once for each client and once more; all handles must lead to
// one store, which is empty. Faults of the store may make outcomes unknown.
func Linearizable(t *testing.T, open func() *store.Store) {
	t.Helper()
	linearizable(t, steps, open)
}

// LinearizableSlow is the same with fewer steps, for a store that takes its
// time.
func LinearizableSlow(t *testing.T, open func() *store.Store) {
	t.Helper()
	linearizable(t, slowSteps, open)
}

func linearizable(t *testing.T, steps int, open func() *store.Store) {
	t.Helper()
	h := &history{start: time.Now()}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range clients {
		c := &client{history: h, id: i, st: open(), rand: rand.New(rand.NewPCG(uint64(i), 7))}
		wg.Go(func() { c.run(ctx, steps) })
	}
	wg.Wait()
	last := &client{history: h, id: clients, st: open()}
	last.settle(ctx)
	for k := range keys {
		last.check(ctx, key(k))
	}
	for _, err := range h.errors {
		t.Error(err)
	}
	if t.Failed() {
		return
	}
	switch porcupine.CheckOperationsTimeout(model, h.ops, time.Minute) {
	case porcupine.Illegal:
		t.Errorf("no order of these operations explains the answers:\n%s", h)
	case porcupine.Unknown:
		t.Errorf("no verdict on %d operations within a minute", len(h.ops))
	}
	granted := 0
	for _, o := range h.ops {
		if in, out := o.Input.(call), o.Output.(answer); in.verb == "acquire" && out.what == "ok" {
			granted++
		}
	}
	t.Logf("%d operations, %d grants, %d outcomes unknown", len(h.ops), granted, h.unknown)
	if granted < clients/2 {
		t.Error("hardly anything was granted")
	}
}

// call and answer are one operation on one key.
type call struct {
	verb  string // acquire, renew, release, break, check, write
	key   string
	owner string
	token int64
}

type answer struct {
	what  string // ok, held, lost, free; "": nobody knows
	token int64  // the one granted, or in force, or broken
}

// state of a key: the last token, and whether it is held.
type state struct {
	token int64
	held  bool
}

var model = porcupine.Model{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		by := make([][]porcupine.Operation, keys)
		for _, o := range ops {
			k := int(o.Input.(call).key[len("key-")] - '0')
			by[k] = append(by[k], o)
		}
		return by
	},
	Init: func() any { return state{} },
	Step: func(s, in, out any) (bool, any) { return step(s.(state), in.(call), out.(answer)) },
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%+v -> %+v", in, out)
	},
}

// step is the rule of a lock in its shortest form. No lease expires here: time
// is the business of other tests.
func step(s state, in call, out answer) (bool, state) {
	mine := s.held && s.token == in.token
	switch {
	case in.verb == "acquire" && out.what == "ok":
		return !s.held && out.token > s.token, state{out.token, true}
	case in.verb == "release" && mine && (out.what == "ok" || out.what == ""):
		return true, state{s.token, false}
	case in.verb == "break" && out.what == "ok":
		return s.held && s.token == out.token, state{s.token, false}
	case out.what == "":
		return true, s
	case out.what == "held":
		return s.held && s.token == out.token, s
	case out.what == "free":
		return !s.held, s
	case out.what == "lost":
		return !mine, s
	}
	return mine, s // renew, write
}

type history struct {
	start time.Time

	mu      sync.Mutex
	ops     []porcupine.Operation
	pending []porcupine.Operation // acquisitions that may have been granted
	errors  []error
	unknown int
}

func (h *history) now() int64 { return int64(time.Since(h.start)) }

func (h *history) String() string {
	ops := slices.Clone(h.ops)
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "%12v %12v client %d: %s\n", time.Duration(o.Call), time.Duration(o.Return), o.ClientId, model.DescribeOperation(o.Input, o.Output))
	}
	return b.String()
}

func (h *history) add(id int, began int64, in call, out answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	op := porcupine.Operation{ClientId: id, Input: in, Call: began, Output: out, Return: h.now()}
	if out.what == "" {
		h.unknown++
		op.Return = math.MaxInt64
	}
	h.ops = append(h.ops, op)
}
