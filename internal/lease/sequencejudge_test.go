package lease

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// seqRecords is everything about locks, decoded.
type seqRecords struct {
	locks  map[string]store.Entry[lockRecord] // by key
	leases map[string]store.Entry[leaseRecord]
}

func (s *sequence) records() seqRecords {
	out := seqRecords{map[string]store.Entry[lockRecord]{}, map[string]store.Entry[leaseRecord]{}}
	err := s.st.View(s.ctx, Everything, func(tx *store.Tx) error {
		return eachRecord(tx, out)
	})
	if err != nil {
		s.fault("%v", err)
	}
	return out
}

func eachRecord(tx *store.Tx, out seqRecords) error {
	for _, kind := range []string{lockKind, pathKind} {
		all, err := store.All[lockRecord](tx, kind)
		if err != nil {
			return err
		}
		for _, lk := range all {
			out.locks[lk.Value.Key] = lk
		}
	}
	all, err := store.All[leaseRecord](tx, leaseKind)
	for _, ls := range all {
		out.leases[leaseName(ls.Key)] = ls
	}
	return err
}

func (s *sequence) lease(name string) leaseRecord { return s.records().leases[name].Value }

func (s *sequence) at(key string) (store.Entry[lockRecord], bool) {
	lk, ok := s.records().locks[key]
	return lk, ok
}

func (s *sequence) dump() (out []string) {
	snap, err := s.mem.Read(s.ctx, driver.Query{Ranges: []driver.Range{{Prefix: lockKind}, {Prefix: pathKind}, {Prefix: leaseKind}, {Prefix: queueKind}}})
	if err != nil {
		return []string{err.Error()}
	}
	for _, rec := range snap.Records {
		out = append(out, fmt.Sprintf("%s (%d, %s old): %s", rec.Key, rec.Rev, s.now.Sub(rec.Time), rec.Value))
	}
	return out
}

// valid returns the workers who hold what they believe to hold. The others
// have been told, and are forgotten.
func (s *sequence) valid() []*seqWorker {
	r := s.records()
	s.workers = slices.DeleteFunc(s.workers, func(w *seqWorker) bool { return !r.valid(w) })
	return slices.Clone(s.workers)
}

func (r seqRecords) valid(w *seqWorker) bool {
	for key, token := range w.tokens {
		lk, ok := r.locks[key]
		if !ok || lk.Rev != token || stateOf(r.leases[lk.Value.Lease]) != Held {
			return false
		}
	}
	return w.renew.held.own == "" || stateOf(r.leases[w.renew.held.own]) == Held
}

// survive requires that nobody lost what the last operation may not take.
func (s *sequence) survive(before []*seqWorker) {
	r := s.records()
	for _, w := range before {
		if slices.Contains(s.workers, w) && !r.valid(w) && !s.ended(w) {
			s.fault("%s lost what nobody took from it: %v, its lease is %q", w.name, w.tokens, w.renew.held.own)
		}
	}
}

// judge looks at what must hold between records.
func (s *sequence) judge() {
	r := s.records()
	for key, lk := range r.locks {
		if ls, ok := r.leases[lk.Value.Lease]; ok && !slices.Contains(ls.Value.Keys, key) {
			s.fault("lock %s names lease %s, which does not have it", key, lk.Value.Lease)
		}
	}
	for name, ls := range r.leases {
		if ls.Value.holds() {
			s.judgeLease(r, name, ls)
		}
	}
	s.judgeWorkers(r)
	for pool, size := range seqPools {
		s.judgePool(r, pool, size)
	}
}

// judgePool: no more slots than the size are used, and whoever has all of a pool has
// all of them.
func (s *sequence) judgePool(r seqRecords, pool string, size int) {
	all, alone := r.locks[slotKey(pool, allSlots)]
	for i := 1; i <= MaxSlots; i++ {
		lk, used := r.locks[slotKey(pool, i)]
		switch {
		case used && i > size:
			s.fault("slot %d of %s, which has %d", i, pool, size)
		case alone && used && stateOf(r.leases[all.Value.Lease]) == Held && stateOf(r.leases[lk.Value.Lease]) == Held && !Related(all.Value.Owner, lk.Value.Owner):
			s.fault("%s has all of %s, and %s has slot %d", all.Value.Owner, pool, lk.Value.Owner, i)
		}
	}
}

func (s *sequence) judgeLease(r seqRecords, name string, ls store.Entry[leaseRecord]) {
	l, inForce := ls.Value, stateOf(ls) == Held
	for _, key := range l.Keys {
		if r.locks[key].Value.Lease != name {
			s.fault("lease %s lists %s, which is locked by %q", name, key, r.locks[key].Value.Lease)
		}
		outer, _ := s.within(nil, key)
		if isPool(outer) {
			outer = l.OuterKeys[key]
		}
		section := r.locks[outer]
		if outer == "" || !inForce {
			continue
		}
		switch around := section.Value.Lease; {
		case stateOf(r.leases[around]) != Held:
			s.fault("%s is held by %s while its section's lease %q is over", key, name, around)
		case around != name && !slices.Contains(l.Uses, around):
			s.fault("%s is held by %s, which does not use the lease %s of its section", key, name, around)
		}
	}
	for _, key := range l.needs() {
		lk := r.locks[key]
		if around := r.leases[lk.Value.Lease]; inForce && (stateOf(around) != Held || !slices.Contains(l.Uses, lk.Value.Lease) || !MayUse(l.Owner, lk.Value.Owner)) {
			s.fault("lease %s is in force and uses %s of lease %q, which is over or another one", name, key, lk.Value.Lease)
		}
	}
	for _, around := range l.Uses {
		if a := r.leases[around]; a.Exists() && !slices.Contains(a.Value.UsedBy, name) {
			s.fault("lease %s uses %s, which does not know", name, around)
		}
	}
	for _, auto := range l.Auto {
		if slices.Contains(l.Keys, auto) && !r.used(name, l, auto) {
			s.fault("lease %s keeps %s for users that are gone", name, auto)
		}
	}
}

func (r seqRecords) used(name string, l leaseRecord, key string) bool {
	if len(l.innerKeys(key, nil)) > 0 {
		return true
	}
	for _, u := range r.leases {
		if slices.Contains(u.Value.Uses, name) && (len(u.Value.innerKeys(key, nil)) > 0 || slices.Contains(u.Value.Using, key)) {
			return true
		}
	}
	return false
}

// judgeWorkers: two who work under one key are parent and child, or one of
// them has no more than the section around it.
func (s *sequence) judgeWorkers(r seqRecords) {
	var at []*seqWorker
	for _, w := range s.workers {
		if !w.plain && r.valid(w) {
			at = append(at, w)
		}
	}
	for i, one := range at {
		for _, two := range at[:i] {
			if MayUse(two.owner, one.owner) || MayUse(one.owner, two.owner) {
				continue
			}
			for _, a := range one.renew.held.record.all() {
				for _, b := range two.renew.held.record.all() {
					if a == b || seqOverlap(a, b) {
						s.fault("%s works under %s and %s under %s", one.name, a, two.name, b)
					}
				}
			}
		}
	}
}

func seqOverlap(a, b string) bool {
	if !isPath(a) || !isPath(b) {
		return false
	}
	one, err1 := ParseGlob(strings.TrimPrefix(a, "path:"))
	two, err2 := ParseGlob(strings.TrimPrefix(b, "path:"))
	return err1 == nil && err2 == nil && one.Overlaps(two)
}
