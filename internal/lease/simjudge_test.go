package lease_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
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
	TTL      float64  `json:"ttlSeconds"`
	at       time.Time
}

func (l simlease) over() bool { return time.Since(l.at).Seconds() > l.TTL }

func newJudge() *judge {
	return &judge{
		locks: map[string]simlock{}, leases: map[string]simlease{}, queues: map[string][]string{},
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
	for _, name := range j.queues[key] {
		if name == l.Lease {
			return
		}
		t, known := j.leases[name]
		if !known || t.over() || len(t.WaitsFor) == 0 || t.Owner == l.Owner {
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
