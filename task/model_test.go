package task_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/task"
)

// A model of tasks and locks: maps, one clock, one thing after another. It
// knows nothing of records, revisions or transactions.
type model struct {
	now      time.Time
	tasks    map[string]*modelTask
	archived map[string]bool
	leases   map[string]*modelLease
	locks    map[string]modelLock
	next     int // of the counter
}

type modelTask struct {
	id, section   string
	priority, age int
	status        task.Status
	deps          map[string]bool
	claimed       string // owner
	lease         string // of the claim
	attempts      int
	verb          task.Verb // the last one that carried a token
	token         int64
}

type modelLock struct {
	lease string
	token int64
}

type modelLease struct {
	name, owner string
	keys        map[string]bool
	auto        map[string]bool // taken only because of what is within
	uses        map[string]bool // leases whose section it is in
	ttl         time.Duration
	seen        time.Time
}

var modelSections = map[string]bool{"S": false, "T": false, "U": true} // shared?

func newModel(now time.Time) *model {
	return &model{now: now, tasks: map[string]*modelTask{}, archived: map[string]bool{}, leases: map[string]*modelLease{}, locks: map[string]modelLock{}, next: 1}
}

func child(owner, of string) bool { return owner == of || strings.HasPrefix(owner, of+"/") }

func related(a, b string) bool { return child(a, b) || child(b, a) }

// around is the section's key around a task's.
func (m *model) around(key string) string {
	if t := m.tasks[key]; t != nil && t.section != "" && !modelSections[t.section] {
		return "section:" + t.section
	}
	return ""
}

func (m *model) live(l *modelLease) bool { return m.now.Sub(l.seen) < l.ttl }

// holder returns the lease that has a key, if it still keeps others out.
func (m *model) holder(key string) *modelLease {
	if l := m.leases[m.locks[key].lease]; l != nil && m.live(l) {
		return l
	}
	return nil
}

// acquire is what a grant does; the answer is the kind of error.
func (m *model) acquire(name, owner string, asked []string) string {
	keys := slices.Clone(asked)
	ttl := time.Duration(0)
	for _, k := range asked {
		ttl = max(ttl, lease.DefaultTTL(k))
		if outer := m.around(k); outer != "" {
			keys = append(keys, outer)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for _, k := range keys {
		if l := m.holder(k); l != nil && !child(owner, l.owner) {
			return "held"
		}
	}
	for _, k := range keys {
		if l := m.leases[m.locks[k].lease]; l != nil && !child(owner, l.owner) {
			m.end(l, maps.Clone(l.keys))
		}
	}
	lease := &modelLease{name: name, owner: owner, keys: map[string]bool{}, auto: map[string]bool{}, uses: map[string]bool{}, ttl: ttl, seen: m.now}
	for _, k := range keys {
		if l := m.leases[m.locks[k].lease]; l != nil {
			if l.owner == owner {
				for _, a := range asked {
					delete(l.auto, a)
				}
				if !slices.ContainsFunc(asked, func(a string) bool { return l.keys[a] }) {
					l.ttl = max(l.ttl, ttl)
				}
			}
			m.renew(l)
			continue
		}
		lease.keys[k] = true
		m.locks[k] = modelLock{lease: name}
		lease.auto[k] = !slices.Contains(asked, k)
	}
	for k := range lease.keys {
		if outer := m.around(k); outer != "" && !lease.keys[outer] {
			lease.uses[m.locks[outer].lease] = true
		}
	}
	if len(lease.keys) > 0 {
		m.leases[name] = lease
		m.renew(lease)
	}
	return ""
}

// inside returns the keys that are held within a key of a lease.
func (m *model) inside(l *modelLease, outer string) (keys []string) {
	for k, lk := range m.locks {
		if m.around(k) == outer && (lk.lease == l.name || m.leases[lk.lease].uses[l.name]) {
			keys = append(keys, k)
		}
	}
	return keys
}

// end takes keys from a lease, with everything that follows from it.
func (m *model) end(l *modelLease, keys map[string]bool) {
	for k := range keys {
		delete(l.keys, k)
		delete(m.locks, k)
	}
	for a, auto := range l.auto {
		if auto && l.keys[a] && len(m.inside(l, a)) == 0 {
			delete(l.keys, a)
			delete(m.locks, a)
		}
	}
	for k := range keys { // a released section, and those in it that were over
		for _, in := range m.inside(l, k) {
			if user := m.leases[m.locks[in].lease]; user != nil && user != l {
				m.end(user, maps.Clone(user.keys))
			}
		}
	}
	before := maps.Clone(l.uses)
	clear(l.uses)
	for k := range l.keys {
		if outer := m.around(k); outer != "" && !l.keys[outer] {
			l.uses[m.locks[outer].lease] = true
		}
	}
	if len(l.keys) > 0 {
		m.renew(l)
	} else {
		delete(m.leases, l.name)
		for _, user := range m.leases { // a section is gone, and who was in it
			if user.uses[l.name] {
				delete(before, l.name)
				m.end(user, maps.Clone(user.keys))
			}
		}
	}
	for name := range before { // sections that nobody is in any more
		around := m.leases[name]
		if around == nil || l.uses[name] {
			continue
		}
		for a, auto := range around.auto {
			if auto && around.keys[a] && len(m.inside(around, a)) == 0 {
				left := map[string]bool{a: true}
				if !m.live(around) {
					left = maps.Clone(around.keys)
				}
				m.end(around, left)
			}
		}
	}
}

// free releases a task's key, whoever has it.
func (m *model) free(key, by string) {
	if l := m.leases[m.locks[key].lease]; l != nil {
		keys := map[string]bool{key: true}
		if !m.live(l) && !child(by, l.owner) {
			keys = maps.Clone(l.keys)
		}
		m.end(l, keys)
	}
}

// renew is a heartbeat, of what the lease uses too; it lasts no longer than that.
func (m *model) renew(l *modelLease) {
	l.seen = m.now
	for name := range l.uses {
		m.renew(m.leases[name])
		l.ttl = min(l.ttl, m.leases[name].ttl)
	}
}

// status is that of a task as its lock has it.
func (m *model) status(t *modelTask) task.Status {
	if t.status == task.InProgress && m.locks[t.id].lease != t.lease {
		return task.Pending
	}
	return t.status
}

func (m *model) waits(t *modelTask) bool {
	for d := range t.deps {
		if dep := m.tasks[d]; dep != nil && !dep.status.Done() {
			return true
		}
	}
	return false
}

func (m *model) dependants(id string) (ids []string) {
	for _, t := range m.tasks {
		if t.deps[id] {
			ids = append(ids, t.id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (m *model) reaches(from, to string) bool {
	if from == to {
		return true
	}
	for d := range m.tasks[from].deps {
		if m.tasks[d] != nil && m.reaches(d, to) {
			return true
		}
	}
	return false
}

// claimable says why a task cannot be claimed now.
func (m *model) claimable(id string) string {
	t := m.tasks[id]
	switch {
	case t == nil:
		return "not found"
	case t.status != task.Pending && t.status != task.InProgress && t.status != task.Review, m.waits(t):
		return "state"
	}
	return ""
}

func (m *model) claim(name, owner string, ids []string) string {
	for _, id := range ids {
		if why := m.claimable(id); why != "" {
			return why
		}
	}
	if why := m.acquire(name, owner, ids); why != "" {
		return why
	}
	for _, id := range ids {
		t := m.tasks[id]
		if lease := m.locks[id].lease; t.status != task.InProgress || t.lease != lease {
			t.status, t.claimed, t.lease, t.verb, t.token = task.InProgress, owner, lease, "", 0
			t.attempts++
		}
	}
	return ""
}

// candidate is what next should give to an owner.
func (m *model) candidate(owner string) string {
	all := slices.SortedFunc(maps.Values(m.tasks), func(a, b *modelTask) int {
		if c := strings.Compare(a.section, b.section); c != 0 {
			return c
		}
		if a.priority != b.priority {
			return a.priority - b.priority
		}
		return a.age - b.age
	})
	for _, t := range all {
		outer := m.holder(m.around(t.id))
		if s := m.status(t); s != task.Pending && s != task.InProgress || m.waits(t) || m.holder(t.id) != nil || outer != nil && !child(owner, outer.owner) {
			continue
		}
		return t.id
	}
	return ""
}

// do carries out a verb. token 0: none was given.
func (m *model) do(verb task.Verb, owner, id string, token int64) string {
	t := m.tasks[id]
	if t == nil {
		return "not found"
	}
	if token != 0 && t.token == token && t.verb == verb {
		return "" // again
	}
	l := m.leases[m.locks[id].lease]
	carried := token
	switch {
	case token != 0:
		if l == nil || m.locks[id].token != token {
			return "lost"
		}
	case l == nil && t.status == task.InProgress && t.claimed == owner:
		return "lost"
	case l == nil || !m.live(l) && !related(owner, l.owner):
	case !related(owner, l.owner):
		return "owner"
	default:
		carried = m.locks[id].token
	}
	if !slices.Contains(life[verb].from, m.status(t)) {
		return "state"
	}
	m.free(id, owner)
	t.status, t.claimed, t.lease, t.verb, t.token = life[verb].to, "", "", verb, carried
	return ""
}

func (m *model) reset(id string, cascade, force bool) string {
	if m.tasks[id] == nil {
		return "not found"
	}
	ids := []string{id}
	for i := 0; cascade && i < len(ids); i++ {
		for _, d := range m.dependants(ids[i]) {
			if !slices.Contains(ids, d) {
				ids = append(ids, d)
			}
		}
	}
	for _, id := range ids {
		if m.holder(id) != nil && !force {
			return "busy"
		}
	}
	for _, id := range ids {
		if l := m.leases[m.locks[id].lease]; l != nil {
			m.end(l, maps.Clone(l.keys))
		}
	}
	for _, id := range ids {
		t := m.tasks[id]
		t.status, t.claimed, t.lease, t.verb, t.token, t.attempts = task.Pending, "", "", "", 0, 0
	}
	return ""
}

func (m *model) remove(id, by string, archive bool) string {
	t := m.tasks[id]
	switch {
	case t == nil:
		return "not found"
	case !archive && m.holder(id) != nil:
		return "busy"
	case !archive && len(m.dependants(id)) > 0, archive && t.status.Open(), archive && !t.status.Done() && len(m.dependants(id)) > 0:
		return "state"
	case archive && m.holder(id) != nil && !child(by, m.holder(id).owner):
		return "busy"
	}
	m.free(id, by)
	delete(m.tasks, id)
	return ""
}

func (m *model) release(owner string, keys []string) string {
	for _, k := range keys {
		if l := m.leases[m.locks[k].lease]; l != nil && !child(l.owner, owner) {
			return "owner"
		}
	}
	for _, k := range keys {
		l := m.leases[m.locks[k].lease]
		if l == nil {
			continue
		}
		for _, in := range m.inside(l, k) {
			if by := m.leases[m.locks[in].lease]; !slices.Contains(keys, in) && (by == l || m.live(by)) {
				return "in use"
			}
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return -strings.Compare(a, b) }) // tasks, then sections
	for _, k := range keys {
		l := m.leases[m.locks[k].lease]
		if l == nil {
			continue
		}
		together := map[string]bool{} // a lease that ends as a whole renews nothing that it used
		for _, other := range keys {
			together[other] = m.locks[other].lease == m.locks[k].lease
		}
		maps.DeleteFunc(together, func(_ string, its bool) bool { return !its })
		m.end(l, together)
	}
	return ""
}
