package lease_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
)

// A judge sees every commit in the order in which it is applied, knows who
// sent it, and holds it against the promises. It decodes the records by itself
// and shares no code with the rules.
type judge struct {
	locks    map[string]simlock
	leases   map[string]simlease
	queues   map[string][]string
	pools    map[string]int   // sizes, by key
	shared   map[string]int64 // largest token of a slot, by pool
	alone    map[string]int64 // largest token of all, by pool
	tokens   map[string]int64 // largest ever, by key
	register map[string]int64 // token of the last fenced write, by key
	broken   map[string]int64 // largest token that was broken, by key
	commits  int
	grants   int
	trace    []string

	mu        sync.Mutex
	adjourned bool // the world is being torn down
	faults    []string
	held      map[*lease.Lease]bool // leases under which someone works
}

type simlock struct {
	Lease, Owner string
	rev          int64
}

type simlease struct {
	Owner    string
	Keys     []string
	WaitsFor []string
	Using    []string
	Auto     []string // released, and kept for their users
	Takes    map[string]int
	TTL      float64 `json:"ttlSeconds"`
	at       time.Time
}

func (l simlease) over() bool { return time.Since(l.at).Seconds() > l.TTL }

func newJudge() *judge {
	return &judge{
		locks: map[string]simlock{}, leases: map[string]simlease{}, queues: map[string][]string{},
		pools: map[string]int{}, shared: map[string]int64{}, alone: map[string]int64{},
		tokens: map[string]int64{}, register: map[string]int64{}, broken: map[string]int64{}, held: map[*lease.Lease]bool{},
	}
}

func (j *judge) fault(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.adjourned {
		return
	}
	j.faults = append(j.faults, fmt.Sprintf("%s: ", time.Now().Format("15:04:05.000"))+fmt.Sprintf(format, args...))
}

func (j *judge) guilty() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.faults) > 0
}

func (j *judge) adjourn() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.adjourned = true
}

func (j *judge) working(l *lease.Lease, yes bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if yes {
		j.held[l] = true
	} else {
		delete(j.held, l)
	}
}

// committed judges one commit and takes it into the model.
func (j *judge) committed(c *simclient, b driver.Batch, rev int64) {
	j.commits++
	j.trace = append(j.trace, fmt.Sprintf("%s rev %d client %d: %s", time.Now().Format("15:04:05.000"), rev, c.id, describe(b)))
	for _, w := range b.Writes {
		kind, name, _ := strings.Cut(w.Key, "/")
		switch kind {
		case "lock":
			j.lockWritten(c, name, w.Value, rev)
		case "register":
			j.registerWritten(name, w.Value)
		}
	}
	for _, w := range b.Writes {
		j.take(w, rev)
	}
	for _, w := range b.Writes {
		if key, ok := strings.CutPrefix(w.Key, "lock/pool:"); ok && w.Value != nil {
			j.slotTaken("pool:"+key, rev)
		}
	}
	j.consistent()
}

func describe(b driver.Batch) string {
	var parts []string
	for _, w := range b.Writes {
		verb := "put "
		if w.Value == nil {
			verb = "delete "
		}
		if !strings.HasPrefix(w.Key, "event/") {
			parts = append(parts, verb+w.Key)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// lockWritten judges the end of the grant that was, and the one that begins.
func (j *judge) lockWritten(c *simclient, key string, value []byte, rev int64) {
	if old, held := j.locks[key]; held {
		lease, known := j.leases[old.Lease]
		switch {
		case c.root:
			j.broken[key] = old.rev
		case descends(old.Owner, c.owner):
		case known && slices.Contains(lease.Auto, key) && !j.used(key):
		case !known || !lease.over():
			j.fault("client %d (%s) took %s from %s, who last showed life %s ago", c.id, c.owner, key, old.Lease, time.Since(lease.at))
		}
	}
	if value == nil {
		return
	}
	j.grants++
	if rev <= j.tokens[key] {
		j.fault("token %d of %s after %d", rev, key, j.tokens[key])
	}
	j.tokens[key] = rev
	var l simlock
	j.decode(value, &l)
	j.inTurn(key, l)
}

// used reports whether someone alive works under a key that is another's. What
// its holder has released lasts as long as they do.
func (j *judge) used(key string) bool {
	for _, l := range j.leases {
		if slices.Contains(l.Using, key) && !l.over() {
			return true
		}
	}
	return false
}

// inTurn judges whether a grant passed a ticket that was ahead and alive. One
// that waits for a key of the grantee may be passed.
func (j *judge) inTurn(key string, l simlock) {
	queue, _, _ := strings.Cut(key, "#") // all slots of a pool have one
	for _, name := range j.queues[queue] {
		if name == l.Lease {
			return
		}
		t, known := j.leases[name]
		if !known || t.over() || len(t.WaitsFor) == 0 || t.Owner == l.Owner {
			continue
		}
		if slices.ContainsFunc(t.WaitsFor, func(k string) bool { return j.needs(t, k, l.Owner) }) {
			continue
		}
		if !slices.ContainsFunc(t.WaitsFor, func(k string) bool {
			has, held := j.locks[k]
			return held && descends(l.Owner, has.Owner)
		}) {
			j.fault("%s got %s before %s, who was ahead", l.Lease, key, name)
		}
	}
}

// slots are the slots of a pool that exist, by their keys, and that of all.
func (j *judge) slots(pool string) (slots map[string]simlock, all *simlock) {
	slots = map[string]simlock{}
	for key, l := range j.locks {
		switch of, slot, _ := strings.Cut(key, "#"); {
		case of != pool:
		case slot == "all":
			all = &l
		default:
			slots[key] = l
		}
	}
	return slots, all
}

// needs reports whether a ticket cannot be served before an owner that has slots of
// the pool.
func (j *judge) needs(t simlease, pool, owner string) bool {
	slots, all := j.slots(pool)
	mine, take := 0, max(1, t.Takes[pool])
	for _, l := range slots {
		if descends(owner, l.Owner) {
			mine++
		}
	}
	return mine > 0 && (t.Takes[pool] < 0 || mine+take > j.pools[pool]) || all != nil && descends(owner, all.Owner)
}

// slotTaken judges a pool after a grant of one of its slots, or of all.
func (j *judge) slotTaken(key string, rev int64) {
	pool, number, _ := strings.Cut(key, "#")
	slots, all := j.slots(pool)
	size := j.pools[pool]
	if len(slots) > size && all == nil { // who has all of it may also have a slot above a size that became smaller
		j.fault("%d slots of %s are used after a grant of %s, and its size is %d", len(slots), pool, key, size)
	}
	if number == "all" {
		for slot, l := range slots {
			if !descends(all.Owner, l.Owner) {
				j.fault("%s has all of %s, and %s is held by %s", all.Owner, pool, slot, l.Owner)
			}
		}
		if len(slots) < size || rev <= j.shared[pool] && j.shared[pool] != rev {
			j.fault("%s has all %d slots of %s at token %d after %d, and %d exist", all.Owner, size, pool, rev, j.shared[pool], len(slots))
		}
		j.alone[pool] = rev
		return
	}
	if n, _ := strconv.Atoi(number); n > size {
		j.fault("%s was granted, and the size of the pool is %d", key, size)
	}
	if l := j.locks[key]; all != nil && !descends(l.Owner, all.Owner) {
		j.fault("%s got %s while %s has all of it", l.Owner, key, all.Owner)
	}
	if rev < j.alone[pool] {
		j.fault("token %d of %s after an exclusive %d", rev, key, j.alone[pool])
	}
	j.shared[pool] = max(j.shared[pool], rev)
}

// registerWritten judges a write that a holder made behind a fence.
func (j *judge) registerWritten(key string, value []byte) {
	var r struct{ Token int64 }
	j.decode(value, &r)
	if held := j.locks[key]; held.rev != r.Token || r.Token < j.register[key] {
		j.fault("register %s written with token %d, lock is at %d, register was at %d", key, r.Token, held.rev, j.register[key])
	}
	j.register[key] = r.Token
}

func (j *judge) take(w driver.Write, rev int64) {
	kind, name, _ := strings.Cut(w.Key, "/")
	switch {
	case w.Value == nil:
		delete(map[string]map[string]simlock{"lock": j.locks}[kind], name)
		delete(map[string]map[string]simlease{"lease": j.leases}[kind], name)
		delete(map[string]map[string][]string{"queue": j.queues}[kind], name)
	case kind == "pool":
		var p struct{ Size int }
		j.decode(w.Value, &p)
		j.pools["pool:"+name] = p.Size
	case kind == "lock":
		l := simlock{rev: rev}
		j.decode(w.Value, &l)
		j.locks[name] = l
	case kind == "lease":
		l := simlease{at: time.Now()}
		j.decode(w.Value, &l)
		j.leases[name] = l
	case kind == "queue":
		var q struct{ Tickets []string }
		j.decode(w.Value, &q)
		j.queues[name] = q.Tickets
	}
}

// consistent: every lock has its lease and every lease its locks, always.
func (j *judge) consistent() {
	for key, l := range j.locks {
		if lease, ok := j.leases[l.Lease]; !ok || lease.Owner != l.Owner || !slices.Contains(lease.Keys, key) {
			j.fault("lock %s of %s has no lease that says so", key, l.Lease)
		}
	}
	for name, l := range j.leases {
		for _, key := range l.Keys {
			if j.locks[key].Lease != name {
				j.fault("lease %s says it holds %s, the lock is of %q", name, key, j.locks[key].Lease)
			}
		}
	}
}

// trust: of all who work by their own clock, no two work under one key. Who
// was broken may not know it yet.
func (j *judge) trust() {
	j.mu.Lock()
	by := map[string]*lease.Lease{}
	var overlap string
	for l := range j.held {
		if l.Err() != nil {
			continue
		}
		for _, k := range l.Grant().Keys {
			if k.Token <= j.broken[k.Key] {
				continue
			}
			other := by[k.Key]
			if other != nil && !descends(l.Owner(), other.Owner()) && !descends(other.Owner(), l.Owner()) {
				overlap = fmt.Sprintf("%s and %s both work under %s", l.Owner(), other.Owner(), k.Key)
			}
			by[k.Key] = l
		}
	}
	for key, l := range by { // and under a pool alone
		pool, alone := strings.CutSuffix(key, "#all")
		for other, o := range by {
			if of, _, _ := strings.Cut(other, "#"); alone && of == pool && !descends(l.Owner(), o.Owner()) && !descends(o.Owner(), l.Owner()) {
				overlap = fmt.Sprintf("%s works under %s and %s under %s", l.Owner(), key, o.Owner(), other)
			}
		}
	}
	j.mu.Unlock()
	if overlap != "" {
		j.fault("%s", overlap)
	}
}

func (j *judge) decode(value []byte, into any) {
	if err := json.Unmarshal(value, into); err != nil {
		j.fault("%s: %v", value, err)
	}
}

// print is a fingerprint of all that happened.
func (j *judge) print() uint64 {
	h := fnv.New64a()
	for _, line := range j.trace {
		h.Write([]byte(line))
	}
	return h.Sum64()
}

func descends(owner, parent string) bool {
	return owner == parent || strings.HasPrefix(owner, parent+"/")
}
