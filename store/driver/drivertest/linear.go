package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tasklock/tasklock/store/driver"
)

var linearCases = []testCase{
	{name: "histories are linearizable", run: linearHistory},
	{name: "histories through a bad network are linearizable", run: linearFlaky},
}

// The model is a handful of registers, each empty (0) or holding a value that
// is written only once in a history. Clients look at all of them or at one,
// and swap one or two that they looked at for new values.
const registers = 4

type (
	state [registers]int

	// A look has from and to nil; a swap has one of each for every key.
	step struct {
		keys     []int
		from, to []int
	}
	outcome struct {
		seen     []int // of a look
		conflict bool  // of a swap
	}
)

var allRegisters = []int{0, 1, 2, 3}

func (in step) swap() bool { return in.to != nil }

var registerModel = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, out any) (bool, any) {
		before, input, output := s.(state), in.(step), out.(outcome)
		if !input.swap() {
			return slices.Equal(before.at(input.keys), output.seen), before
		}
		matches := slices.Equal(before.at(input.keys), input.from)
		if !matches || output.conflict {
			return matches != output.conflict, before
		}
		after := before
		for i, k := range input.keys {
			after[k] = input.to[i]
		}
		return true, after
	},
	DescribeOperation: func(in, out any) string {
		input, output := in.(step), out.(outcome)
		switch {
		case !input.swap():
			return fmt.Sprintf("look at %v: %v", input.keys, output.seen)
		case output.conflict:
			return fmt.Sprintf("swap %v from %v to %v: conflict", input.keys, input.from, input.to)
		}
		return fmt.Sprintf("swap %v from %v to %v", input.keys, input.from, input.to)
	},
}

func (s state) at(keys []int) []int {
	values := make([]int, len(keys))
	for i, k := range keys {
		values[i] = s[k]
	}
	return values
}

func linearHistory(t *suite) {
	handles := []driver.Store{t.open(), t.open(), t.open()}
	checkHistories(t, handles, func() {})
}

func linearFlaky(t *suite) {
	handles := []*Flaky{t.openFlaky(7), t.openFlaky(8), t.openFlaky(9)}
	checkHistories(t, []driver.Store{handles[0], handles[1], handles[2]}, func() { settle(t, handles...) })
}

// checkHistories lets clients work on the registers, and checks what they
// saw. After the last of them, ended is called and one more look taken.
func checkHistories(t *suite, handles []driver.Store, ended func()) {
	h := &history{start: time.Now()}
	clients, steps := 6, max(8, t.rounds(50))
	err := parallel(clients, func(i int) error {
		c := client{history: h, id: i, store: handles[i%len(handles)], rand: rand.New(rand.NewPCG(uint64(i), 42))}
		for range steps {
			pause()
			if err := c.step(t.ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ended()
	last := client{history: h, id: clients, store: t.open()}
	if err := last.look(t.ctx, allRegisters); err != nil {
		t.Fatal(err)
	}

	if err := h.revisionsInOrder(); err != nil {
		t.Fatal(err)
	}
	ops := h.decidable()
	switch porcupine.CheckOperationsTimeout(registerModel, ops, 30*time.Second) {
	case porcupine.Illegal:
		t.Fatalf("no order of these operations explains what the clients saw:\n%s", describe(ops))
	case porcupine.Unknown:
		t.Fatalf("no verdict on %d operations in 30 s", len(ops))
	}
	t.Logf("%d operations", len(ops))
}

// A history is what all clients did, on one clock.
type history struct {
	start time.Time
	value atomic.Int64 // the last one written

	mu      sync.Mutex
	ops     []porcupine.Operation
	unknown []porcupine.Operation // swaps, with Return at the end of time
	commits []revision
}

// A revision is one that a client got, and when it asked.
type revision struct {
	rev        int64
	call, done int64
	look       bool // the revision of a snapshot, which it shares with others
}

func (h *history) now() int64 { return int64(time.Since(h.start)) }

// decidable returns the history with each unknown swap either dropped or kept
// as one that may have happened at any time after its call. Only a value that
// was seen was written: a client that overwrites a value has looked at it
// before, and the last look saw the rest.
func (h *history) decidable() []porcupine.Operation {
	seen := map[int]bool{}
	for _, op := range h.ops {
		for _, v := range op.Output.(outcome).seen {
			seen[v] = true
		}
	}
	ops := slices.Clone(h.ops)
	for _, op := range h.unknown {
		if slices.ContainsFunc(op.Input.(step).to, func(v int) bool { return seen[v] }) {
			ops = append(ops, op)
		}
	}
	return ops
}

// revisionsInOrder requires that a commit called after another returned, or
// after a snapshot was taken, has a larger revision, and that a snapshot is
// not older than what returned before it.
func (h *history) revisionsInOrder() error {
	for i, a := range h.commits {
		for j, b := range h.commits {
			switch {
			case i < j && a.rev == b.rev && !a.look && !b.look:
				return fmt.Errorf("two commits got revision %d", a.rev)
			case a.done < b.call && (a.rev > b.rev || a.rev == b.rev && !b.look):
				return fmt.Errorf("a client got revision %d before another asked and got %d", a.rev, b.rev)
			}
		}
	}
	return nil
}

func describe(ops []porcupine.Operation) string {
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var lines strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&lines, "%12v to %12v client %d: %s\n", time.Duration(op.Call), time.Duration(op.Return), op.ClientId,
			registerModel.DescribeOperation(op.Input, op.Output))
	}
	return lines.String()
}

// A client works through one handle and remembers its last look.
type client struct {
	*history
	id    int
	store driver.Store
	rand  *rand.Rand
	saw   map[int]register
}

type register struct {
	value int
	rev   int64
}

func registerKey(k int) string { return fmt.Sprintf("register/%d", k) }

func (c *client) step(ctx context.Context) error {
	switch x := c.rand.IntN(10); {
	case x < 3 || c.saw == nil:
		return c.look(ctx, allRegisters)
	case x < 5:
		return c.look(ctx, []int{c.rand.IntN(registers)})
	default:
		return c.swap(ctx, c.rand.Perm(registers)[:1+c.rand.IntN(2)])
	}
}

// look reads all registers as a range, or a few by their keys.
func (c *client) look(ctx context.Context, keys []int) error {
	q := driver.Query{Ranges: []driver.Range{{Prefix: "register/"}}}
	if len(keys) < registers {
		q.Ranges = nil
		for _, k := range keys {
			q.Keys = append(q.Keys, registerKey(k))
		}
	}

	call := c.now()
	snap, err := c.store.Read(ctx, q)
	end := c.now()
	if errors.Is(err, ErrFlaky) {
		return nil // saw nothing
	}
	if err != nil {
		return err
	}
	if c.saw == nil {
		c.saw = map[int]register{}
	}
	var out outcome
	for _, k := range keys {
		record := find(snap, registerKey(k))
		n, err := parseCount(record)
		if err != nil {
			return err
		}
		c.saw[k] = register{value: n.N, rev: record.Rev}
		out.seen = append(out.seen, n.N)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, porcupine.Operation{ClientId: c.id, Input: step{keys: keys}, Call: call, Output: out, Return: end})
	c.commits = append(c.commits, revision{rev: snap.Rev, call: call, done: end, look: true})
	return nil
}

// swap replaces what the last look at these registers saw, however long ago.
func (c *client) swap(ctx context.Context, keys []int) error {
	in, b := step{keys: keys}, driver.Batch{}
	for _, k := range keys {
		old, value := c.saw[k], int(c.value.Add(1))
		in.from, in.to = append(in.from, old.value), append(in.to, value)
		b.Guards = append(b.Guards, at(registerKey(k), old.rev))
		b.Writes = append(b.Writes, count{N: value}.write(registerKey(k)))
	}

	call := c.now()
	rev, err := c.store.Commit(ctx, b)
	end := c.now()
	op := porcupine.Operation{ClientId: c.id, Input: in, Call: call, Output: outcome{}, Return: end}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		for i, k := range keys {
			c.saw[k] = register{value: in.to[i], rev: rev}
		}
		c.ops = append(c.ops, op)
		c.commits = append(c.commits, revision{rev: rev, call: call, done: end})
	case errors.Is(err, driver.ErrConflict):
		op.Output = outcome{conflict: true}
		c.ops = append(c.ops, op)
	case errors.Is(err, ErrFlaky):
		op.Return = math.MaxInt64
		c.unknown = append(c.unknown, op)
	default:
		return err
	}
	return nil
}
