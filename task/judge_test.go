package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
	"github.com/tasklock/tasklock/task"
)

// judged is a store in memory that looks at all records after every commit and
// reports what can never be: the rules that hold between records, whoever
// wrote them.
type judged struct {
	*memstore.Store
	report func(format string, args ...any)

	reads  atomic.Int64
	before func(driver.Batch) // if set, called before each commit

	mu      sync.Mutex
	asleep  bool // for worlds so large that they are judged in the end only
	commits int
	issued  map[string]bool // every numbered id that ever was
}

func newJudged(report func(string, ...any), now func() time.Time) *judged {
	return &judged{Store: memstore.NewWithClock(now), report: report, issued: map[string]bool{}}
}

func (j *judged) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	j.reads.Add(1)
	return j.Store.Read(ctx, q)
}

func (j *judged) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if before := j.before; before != nil {
		before(b)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	rev, err := j.Store.Commit(ctx, b)
	if err == nil && len(b.Writes) > 0 && !j.asleep {
		j.commits++
		for _, fault := range j.judge() {
			j.report("after %.300q: %.1000s", b.Note, fault)
		}
	}
	return rev, err
}

// The records, as they are stored.
type (
	lockRecord struct {
		Key, Lease, Owner string
	}
	leaseRecord struct {
		Owner              string
		Keys, WaitsFor     []string
		Auto, Uses, UsedBy []string
		Outer, PutsBack    map[string]string
	}
	indexRecord struct{ ID, Lease string }
	nameRecord  struct {
		Tasks []struct {
			ID    string
			Older map[string]string
		}
		More int
	}
)

// records is everything in the store, decoded.
type records struct {
	tasks    map[string]task.Task
	archive  map[string]task.Task
	sections map[string]task.Section
	locks    map[string]lockRecord
	leases   map[string]leaseRecord
	ready    map[string]indexRecord
	open     map[string]indexRecord
	names    map[string]nameRecord
	counter  map[string]struct{ Next int64 }
	faults   []string
}

func (j *judged) dump() map[string]string {
	snap, err := j.Read(context.Background(), driver.Query{Ranges: []driver.Range{{}}})
	if err != nil {
		j.report("%v", err)
	}
	out := map[string]string{}
	for _, r := range snap.Records {
		out[r.Key] = fmt.Sprintf("%d %s", r.Rev, r.Value)
	}
	return out
}

// names returns the records of the index of names.
func (j *judged) names() map[string]string {
	all := j.dump()
	maps.DeleteFunc(all, func(key, _ string) bool { return !strings.HasPrefix(key, "name/") })
	return all
}

func decode[T any](r *records, all []driver.Record, kind string) map[string]T {
	out := map[string]T{}
	for _, rec := range all {
		name, ok := strings.CutPrefix(rec.Key, kind)
		if !ok {
			continue
		}
		var v T
		if err := json.Unmarshal(rec.Value, &v); err != nil {
			r.fault("%s: %v", rec.Key, err)
		}
		out[name] = v
	}
	return out
}

func (r *records) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

func (j *judged) judge() []string {
	var q driver.Query
	for _, kind := range []string{"task/", "archive/", "section/", "lock/", "lease/", "ready/", "open/", "name/", "counter/"} {
		q.Ranges = append(q.Ranges, driver.Range{Prefix: kind})
	}
	snap, err := j.Read(context.Background(), q)
	if err != nil {
		return []string{err.Error()}
	}
	r := &records{}
	r.tasks = decode[task.Task](r, snap.Records, "task/")
	r.archive = decode[task.Task](r, snap.Records, "archive/")
	r.sections = decode[task.Section](r, snap.Records, "section/")
	r.locks = decode[lockRecord](r, snap.Records, "lock/")
	r.leases = decode[leaseRecord](r, snap.Records, "lease/")
	r.ready = decode[indexRecord](r, snap.Records, "ready/")
	r.open = decode[indexRecord](r, snap.Records, "open/")
	r.names = decode[nameRecord](r, snap.Records, "name/")
	r.counter = decode[struct{ Next int64 }](r, snap.Records, "counter/")
	r.judgeLocks()
	r.judgeSections()
	r.judgeIndexes()
	r.judgeNames()
	r.judgeTasks()
	r.judgeIDs(j.issued)
	return r.faults
}

// judgeLocks: locks and leases name each other; a section that came with a
// task leaves with the last one.
func (r *records) judgeLocks() {
	for key, lk := range r.locks {
		if ls, ok := r.leases[lk.Lease]; ok && !slices.Contains(ls.Keys, key) {
			r.fault("lock %s names lease %s, which does not have it", key, lk.Lease)
		}
	}
	for name, ls := range r.leases {
		for _, key := range ls.Keys {
			if r.locks[key].Lease != name {
				r.fault("lease %s lists %s, which is locked by %q", name, key, r.locks[key].Lease)
			}
		}
		for _, around := range ls.Uses {
			if a, ok := r.leases[around]; ok && !slices.Contains(a.UsedBy, name) {
				r.fault("lease %s uses %s, which does not know", name, around)
			}
		}
		for _, auto := range ls.Auto {
			if slices.Contains(ls.Keys, auto) && !r.around(name, ls, auto) {
				r.fault("lease %s keeps %s, which was taken for tasks that are gone", name, auto)
			}
		}
	}
}

// around reports whether the outer key of a lease has a key within it.
func (r *records) around(name string, ls leaseRecord, outer string) bool {
	for _, key := range ls.Keys {
		if ls.Outer[key] == outer {
			return true
		}
	}
	for _, user := range r.leases {
		for _, key := range user.Keys {
			if slices.Contains(user.Uses, name) && user.Outer[key] == outer {
				return true
			}
		}
	}
	return false
}

// judgeSections: a task's lock and the lock of its exclusive section are never
// held by different owners.
func (r *records) judgeSections() {
	for id, t := range r.tasks {
		lk, held := r.locks[id]
		if t.Section == "" || r.sections[t.Section].Shared || !held {
			continue
		}
		outer := "section:" + t.Section
		if r.sections[t.Section].Workers > 0 { // a slot: which one, the lease says
			if outer = r.leases[lk.Lease].Outer[id]; !strings.HasPrefix(outer, "pool:section:"+t.Section+"#") && r.leases[lk.Lease].Owner != "" {
				r.fault("%s is locked by %s, and its section %s by no slot, but %q", id, lk.Owner, t.Section, outer)
			}
		}
		sec, ok := r.locks[outer]
		switch {
		case !ok:
			r.fault("%s is locked by %s, and nobody has its section %s", id, lk.Owner, t.Section)
		case !lease.MayUse(lk.Owner, sec.Owner):
			r.fault("%s is locked by %s, its section %s by %s", id, lk.Owner, t.Section, sec.Owner)
		case sec.Lease != lk.Lease && !slices.Contains(r.leases[lk.Lease].Uses, sec.Lease) && r.leases[lk.Lease].Owner != "":
			r.fault("%s is locked by %s, its section by %s, and the one does not use the other", id, lk.Lease, sec.Lease)
		}
	}
}

// judgeIndexes: ready/ and open/ hold exactly what the tasks imply. A claim without its
// lock stands at its rank again.
func (r *records) judgeIndexes() {
	ready, open := map[string]indexRecord{}, map[string]indexRecord{}
	for id, t := range r.tasks {
		section := strings.ReplaceAll(t.Section, "/", "\x1f")
		if section == "" {
			section = "-"
		}
		const format = "20060102T150405.000000000Z"
		rank := fmt.Sprintf("%s/%03d-%s-%s", section, t.Priority, t.CreatedAt.UTC().Format(format), id)
		waits := len(t.WaitsFor) > 0
		switch {
		case t.Status == task.InProgress && t.ClaimDue != nil:
			if !waits {
				ready[fmt.Sprintf("%s/~%s-%s", section, t.ClaimDue.UTC().Format(format), id)] = indexRecord{id, t.ClaimLease}
			}
			if _, there := r.ready[rank]; !waits && r.locks[id].Lease != t.ClaimLease || there && (waits || r.leases[t.ClaimLease].PutsBack[id] != "ready/"+rank) {
				ready[rank] = indexRecord{ID: id}
			}
		case (t.Status == task.Pending || t.Status == task.InProgress) && !waits:
			ready[rank] = indexRecord{ID: id}
		}
		if t.Section != "" && t.Status.Open() {
			open[strings.ReplaceAll(t.Section, "/", "\x1f")+"/"+id] = indexRecord{ID: id}
		}
	}
	if !maps.Equal(ready, r.ready) {
		r.fault("ready is %v, tasks imply %v", slices.Sorted(maps.Keys(r.ready)), slices.Sorted(maps.Keys(ready)))
	}
	if !maps.Equal(open, r.open) {
		r.fault("open is %v, tasks imply %v", slices.Sorted(maps.Keys(r.open)), slices.Sorted(maps.Keys(open)))
	}
}

// judgeNames: name/ holds exactly what the tasks are called, and a lock on a name
// that a task bears is either that of a task with this id or known to the task.
func (r *records) judgeNames() {
	bear := map[string][]string{}
	for id, t := range r.tasks {
		names := append([]string{id, t.Title}, t.Aliases...)
		if num, ok := strings.CutPrefix(id, "t"); ok && strings.Trim(num, "0123456789_") == "" {
			names = append(names, num)
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			key, err := lease.CheckKey(name)
			if kind, _ := lease.KindOf(key); err == nil && kind == lease.Task {
				bear[key] = append(bear[key], id)
			}
		}
	}
	for name, ids := range bear {
		rec := r.names[name]
		if len(rec.Tasks)+rec.More != len(ids) {
			r.fault("name %s: %+v, tasks imply %v", name, rec, ids)
		}
		for _, b := range rec.Tasks {
			if !slices.Contains(ids, b.ID) {
				r.fault("name %s lists %s, which is not called so", name, b.ID)
			}
			_, isID := r.tasks[name]
			if lk, locked := r.locks[name]; locked && !isID && !knows(b.Older, name, lk.Lease) {
				r.fault("%s is locked by %s, and %s, which is called so, does not know", name, lk.Owner, b.ID)
			}
			for older := range b.Older {
				own, both := r.locks[b.ID]
				if lk, held := r.locks[older]; held && both && knows(b.Older, older, lk.Lease) && !lease.MayUse(own.Owner, lk.Owner) && !lease.MayUse(lk.Owner, own.Owner) {
					r.fault("%s is locked by %s, and as %s by %s", b.ID, own.Owner, older, lk.Owner)
				}
			}
		}
	}
	for name := range r.names {
		if len(bear[name]) == 0 {
			r.fault("name %s is that of no task", name)
		}
	}
}

// knows reports whether an older lock of that lease is noted.
func knows(older map[string]string, name, lease string) bool {
	l, noted := older[name]
	return noted && (l == "" || l == lease)
}

// judgeTasks: dependencies are written on both sides and know what is done,
// there is no cycle, and only a task in progress has a claim.
func (r *records) judgeTasks() {
	for id, t := range r.tasks {
		for _, d := range t.DependsOn {
			dep, there := r.tasks[d]
			if there && !slices.Contains(dep.Dependents, id) {
				r.fault("%s depends on %s, which does not know", id, d)
			}
			if waits := slices.Contains(t.WaitsFor, d); waits != (there && !dep.Status.Done()) {
				r.fault("%s waits for %s: %v, but that is %q", id, d, waits, dep.Status)
			}
		}
		for _, d := range t.WaitsFor {
			if !slices.Contains(t.DependsOn, d) {
				r.fault("%s waits for %s and does not depend on it", id, d)
			}
		}
		for _, d := range t.Dependents {
			if !slices.Contains(r.tasks[d].DependsOn, id) {
				r.fault("%s counts %s as dependent, which it is not", id, d)
			}
		}
		if t.Section != "" && r.sections[t.Section].Name != t.Section {
			r.fault("%s is in section %q, which does not exist", id, t.Section)
		}
		if claimed := t.ClaimedBy != "" && t.ClaimedAt != nil && t.ClaimLease != ""; claimed != (t.Status == task.InProgress) {
			r.fault("%s is %s and claimed by %q with lease %q", id, t.Status, t.ClaimedBy, t.ClaimLease)
		}
		if r.reaches(id, id, map[string]bool{}) {
			r.fault("%s depends on itself", id)
		}
		if _, both := r.archive[id]; both {
			r.fault("%s is archived and not", id)
		}
	}
}

func (r *records) reaches(from, to string, seen map[string]bool) bool {
	for _, d := range r.tasks[from].DependsOn {
		if d == to || !seen[d] && r.reaches(d, to, mark(seen, d)) {
			return true
		}
	}
	return false
}

func mark(seen map[string]bool, id string) map[string]bool {
	seen[id] = true
	return seen
}

// judgeIDs: the counter is above every number that ever was given out.
func (r *records) judgeIDs(issued map[string]bool) {
	for id := range r.tasks {
		issued[id] = true
	}
	for id := range issued {
		if n, err := strconv.ParseInt(strings.TrimPrefix(id, "t"), 10, 64); err == nil && id[0] == 't' && r.counter["task"].Next <= n {
			r.fault("%s exists, and the counter is at %d", id, r.counter["task"].Next)
		}
	}
}
