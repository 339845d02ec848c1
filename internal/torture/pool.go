//go:build linux

package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
)

// In a run with [Config.Pool] all workers want slots of one pool, by different
// weights, while its size changes. A slot is a key, so all checks of keys hold
// for each slot; those of this file are about the pool:
//
//   - size: no grant makes the slots in use more than the size, or is refused for a
//     size that the pool never had;
//   - alone: who has all of it is alone;
//   - order: grants have tokens in their order in time, whichever slots they took;
//   - queue: nobody gets in before one who was in the queue when it came;
//   - leak: in the end no slot is used, and all of them can be taken.

const (
	poolName = "torture"
	poolKey  = "pool:" + poolName
)

// wrongSize is a size that callers name, and that the pool never has.
const wrongSize = 9

// sized is a size of the pool, and when its command began and ended.
type sized struct {
	size     int
	from, to int64
}

// weight is how many slots the next round takes, and the size that it names: mostly
// none, sometimes a wrong one.
func (w *worker) weight() (take, slots int) {
	if w.Pool == 0 {
		return 0, 0
	}
	take = []int{1, 1, 1, 1, 2, 2, 3, 3, lease.TakeAll, lease.TakeAll}[w.rand.IntN(10)]
	switch {
	case w.chance(10):
		slots = wrongSize
	case w.chance(10):
		slots = w.Pool
	}
	if slots > 0 && take > slots {
		slots = 0
	}
	return take, slots
}

// slotTime is how long a round keeps its slots: longer than a grant takes, so that the
// pool is full.
func (w *worker) slotTime() time.Duration {
	return w.TTL/20 + time.Duration(w.rand.Int64N(int64(w.TTL/5)))
}

// looked notes a look of a waiter, who is in the queue by then.
func (o *op) looked() {
	at := now()
	if o.Joined == 0 {
		o.Joined = at
	} else {
		o.Idle = max(o.Idle, at-o.Began)
	}
	o.Began = at
}

// protects are the keys in whose critical sections the holder works: for all of a pool
// those of every slot that there could be.
func (o *op) protects() []string {
	if o.Take != lease.TakeAll {
		return o.Keys
	}
	keys := []string{allKey}
	for slot := 1; slot <= lease.MaxSlots; slot++ {
		keys = append(keys, slotKey(slot))
	}
	return keys
}

const allKey = poolKey + "#all"

func slotKey(slot int) string { return poolKey + "#" + strconv.Itoa(slot) }

// slotKeys are the keys of a grant, by the numbers that "run" gives to its command.
func slotKeys(numbers []string, take int) (keys []string) {
	for _, n := range numbers {
		keys = append(keys, poolKey+"#"+n)
	}
	if take == lease.TakeAll {
		keys = append(keys, allKey)
	}
	return keys
}

// slots are the slots of a grant.
func (o *op) slots() int {
	return len(slices.DeleteFunc(slices.Clone(o.Keys), func(k string) bool { return k == allKey }))
}

// poolFlags are the arguments by which the command takes slots.
func (o *op) poolFlags() (flags []string) {
	switch o.Take {
	case 0:
	case lease.TakeAll:
		flags = append(flags, "--take", "all")
	default:
		flags = append(flags, "--take", strconv.Itoa(o.Take))
	}
	if o.Slots > 0 {
		flags = append(flags, "--slots", strconv.Itoa(o.Slots))
	}
	return flags
}

// tasklock runs the command on a machine of its own, and returns its answer.
func (c *controller) tasklock(args ...string) ([]byte, error) {
	cmd := exec.Command(c.Binary, append([]string{"--store", c.URL, "--owner", "resizer", "--json"}, args...)...)
	cmd.Env = cleanEnv()
	if c.Env != nil {
		cmd.Env = append(cmd.Env, c.Env(maxSlots)...)
	}
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		err = fmt.Errorf("tasklock %s: %w: %s%s", strings.Join(args, " "), err, out, exit.Stderr)
	}
	return out, err
}

// resize sets the size of the pool.
func (c *controller) resize(size int) error {
	s := sized{size: size, from: now()}
	_, err := c.tasklock("pools", "set", poolName, strconv.Itoa(size))
	s.to = now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes = append(c.sizes, s)
	return err
}

// anotherSize makes the pool smaller or larger, and every second time as it was.
func (c *controller) anotherSize() {
	c.mu.Lock()
	size := c.Pool
	if len(c.sizes)%2 == 1 {
		size = []int{2, 2, 3, c.Pool + 2}[c.rand.IntN(4)]
	}
	c.mu.Unlock()
	if err := c.resize(size); err != nil {
		c.report("error", err.Error())
	}
}

// leaked says which slots are used when all workers have ended, and the leases of those
// that were killed are over.
func (c *controller) leaked() []Violation {
	var used struct{ Data struct{ Pool lease.PoolInfo } }
	var err error
	for deadline := time.Now().Add(c.TTL + c.Late); ; time.Sleep(100 * time.Millisecond) {
		var out []byte
		if out, err = c.tasklock("pools", "show", poolName); err == nil {
			err = json.Unmarshal(out, &used)
		}
		if err == nil && used.Data.Pool.Used == 0 && used.Data.Pool.Size > 0 {
			if _, err = c.tasklock("acquire", poolKey, "--take", "all", "--no-wait"); err == nil {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return []Violation{{"leak", poolKey, fmt.Sprintf("%d slots are used when all have ended: %+v %v", used.Data.Pool.Used, used.Data.Pool.Holders, err)}}
		}
	}
}

// pool judges the grants of all slots together.
func (c *checker) pool() {
	var grants []*op
	for i := range c.ops {
		switch o := &c.ops[i]; {
		case o.Kind == opAcquire && o.Result == isOK:
			grants = append(grants, o)
			c.fits(o)
		case o.Result == isRefused:
			c.refusedRightly(o)
		}
	}
	slices.SortFunc(grants, func(a, b *op) int { return int(a.token(a.Keys[0]) - b.token(b.Keys[0])) })
	c.inTurn(grants)
	c.within(grants)
}

// sizesIn are the sizes that the pool may have had between two moments.
func (c *checker) sizesIn(from, to int64) (sizes []int) {
	for i, s := range c.sizes {
		if s.from <= to && (i+1 == len(c.sizes) || c.sizes[i+1].to >= from) {
			sizes = append(sizes, s.size)
		}
	}
	return sizes
}

// fits judges a grant without the others: it is as large as it was asked for, and has
// one token.
func (c *checker) fits(g *op) {
	sizes := c.sizesIn(g.Began, g.Return)
	want := []int{g.Take}
	if g.Take == lease.TakeAll {
		want = sizes
		if !slices.Contains(g.Keys, allKey) {
			c.fail("alone", poolKey, "worker %d has all of it without its key: %v", g.Row, g.Keys)
		}
	}
	if !slices.Contains(want, g.slots()) {
		c.fail("size", poolKey, "worker %d asked for %d slots and got %v, the size is one of %v", g.Row, g.Take, g.Keys, sizes)
	}
	if g.Slots > 0 && !slices.Contains(sizes, g.Slots) {
		c.fail("size", poolKey, "worker %d named the size %d and was let in, the size is one of %v", g.Row, g.Slots, sizes)
	}
	for _, key := range g.Keys {
		if g.token(key) != g.token(g.Keys[0]) {
			c.fail("order", key, "one grant has the tokens %v", g.Tokens)
		}
		if slot := indexOf(key); slot > slices.Max(sizes) {
			c.fail("size", key, "granted to worker %d, the size is one of %v", g.Row, sizes)
		}
	}
}

// refusedRightly requires a size for which the request is refused.
func (c *checker) refusedRightly(o *op) {
	sizes := c.sizesIn(o.Call, o.Return)
	if !slices.ContainsFunc(sizes, func(size int) bool { return o.Take > size || o.Slots > 0 && o.Slots != size }) {
		c.fail("size", poolKey, "worker %d asked for %d slots of %d and was refused, the size is one of %v", o.Row, o.Take, o.Slots, sizes)
	}
}

// inTurn requires that later grants have larger tokens, and that nobody got in before a
// waiter that was in the queue when it came. Who did not look for half the time that a
// ticket lasts, because it was stopped, may have lost its turn.
func (c *checker) inTurn(grants []*op) {
	told, joined := never, never
	var ahead *op
	idle := int64(lease.TimesOf(scheme(c.URL)).Ticket / 2)
	for _, g := range slices.Backward(grants) {
		if told < g.Began {
			c.fail("order", poolKey, "token %d was asked for after a higher one had been told", g.token(g.Keys[0]))
		}
		if joined < g.Call {
			c.fail("queue", poolKey, "worker %d got token %d before worker %d, token %d, which was in the queue when it came", g.Row, g.token(g.Keys[0]), ahead.Row, ahead.token(ahead.Keys[0]))
		}
		if told = min(told, g.Return); g.Joined > 0 && g.Joined < joined && max(g.Idle, g.Return-g.Began) < idle {
			joined, ahead = g.Joined, g
		}
	}
}

func scheme(url string) string {
	s, _, _ := strings.Cut(url, ":")
	return s
}

// within requires that each grant leaves the slots in use within the size, and that
// who has all is alone. Only those count who surely hold theirs when it is granted.
func (c *checker) within(grants []*op) {
	until := c.heldUntil()
	earliest := make([]int64, len(grants)+1) // return of this grant and those after it
	earliest[len(grants)] = never
	for i, g := range slices.Backward(grants) {
		earliest[i] = min(earliest[i+1], g.Return)
	}
	var in []*op
	for i, g := range grants {
		in = slices.DeleteFunc(in, func(h *op) bool { return until[h] <= earliest[i] })
		used, size := g.slots(), slices.Max(c.sizesIn(g.Began, g.Return))
		for _, h := range in {
			if until[h] <= g.Return {
				continue
			}
			if used += h.slots(); g.Take == lease.TakeAll || h.Take == lease.TakeAll {
				c.fail("alone", poolKey, "worker %d got %v at token %d while worker %d had %v at token %d", g.Row, g.Keys, g.token(g.Keys[0]), h.Row, h.Keys, h.token(h.Keys[0]))
			}
		}
		if used > size && g.Take != lease.TakeAll {
			c.fail("size", poolKey, "%d slots were used after worker %d got %v, the size is at most %d", used, g.Row, g.Keys, size)
		}
		in = append(in, g)
	}
}

// heldUntil is until when each grant was surely in force: its holder trusted it when it
// began to release it, or it was within its time of trust, neither killed nor released.
func (c *checker) heldUntil() map[*op]int64 {
	ends := map[int64]*op{} // releases, by token
	for i := range c.ops {
		if o := &c.ops[i]; o.Kind == opRelease && !o.Probe {
			ends[o.token(o.Keys[0])] = o
		}
	}
	until := map[*op]int64{}
	for g := range c.alive {
		trust, _ := lease.Window(g.TTL)
		end := g.Began + int64(trust)
		if at, killed := c.killed[g.Row]; killed {
			end = min(end, at)
		}
		if r := ends[g.token(g.Keys[0])]; r != nil {
			end = max(min(end, r.Call), r.Until)
		}
		if !g.Untold { // "run" releases by itself
			until[g] = end
		}
	}
	return until
}
