package task

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// entry is one of the index ready/.
type entry struct {
	key string
	indexRecord
}

// newEntry reads a record of the index. The key says it all, except of a claim.
func newEntry(tx *store.Tx, rec driver.Record) (entry, error) {
	if !isApart(rec.Key) {
		return entry{rec.Key, indexRecord{ID: taskAt(rec.Key)}}, nil
	}
	e, err := store.Decode[indexRecord](tx, rec)
	return entry{rec.Key, e.Value}, err
}

// candidate is a task that may be next, as far as it was read.
type candidate struct {
	Task
	entry string // of the index, if that is all that was read: see glance
}

// page is what one look reads of a section's part of the index.
type page struct {
	ranked, claimed []entry
	more            pages // what to read if these do not suffice
	due             bool  // claims that were not read may have expired too
}

// ranges names what one look reads of a section.
func (r *selection) ranges(section string) []driver.Range {
	prefix := readyKind + sectionPrefix(section)
	return []driver.Range{{Prefix: prefix, Limit: r.ranked}, {Prefix: prefix + apart, Limit: r.claimed}}
}

func (r *selection) read(tx *store.Tx, section string) (p page, err error) {
	var parts [2][]entry
	for i, rg := range r.ranges(section) {
		recs, missing := tx.ScanWritten(rg.Prefix, rg.Limit)
		err = cmp.Or(err, missing)
		for _, rec := range recs {
			e, err := newEntry(tx, rec)
			if err != nil {
				return p, err
			}
			parts[i] = append(parts[i], e)
		}
	}
	p.more, p.ranked, p.claimed = r.pages, parts[0], parts[1]
	if len(p.ranked) == r.ranked && !isApart(p.ranked[r.ranked-1].key) {
		p.more.ranked *= 4
	}
	if len(p.claimed) == r.claimed {
		p.more.claimed *= 4
		p.due = isDue(p.claimed[r.claimed-1].key, tx.Now())
	}
	p.ranked = slices.DeleteFunc(p.ranked, func(e entry) bool { return isApart(e.key) })
	return p, err
}

// listed returns the candidates of a page in order or, if there are none, what the next
// look has to read.
func (r *selection) listed(tx *store.Tx, section string, p page) (out []candidate, more pages, err error) {
	if out, err = r.glance(tx, section, p); len(out) > 0 || err != nil {
		return out, r.pages, err
	}
	free, more, err := r.free(tx, p)
	for _, t := range free {
		out = append(out, candidate{Task: t})
	}
	return out, more, err
}

// glance returns the tasks of a page as the index lists them: for a claim, whose
// transaction decides about the task anyway. So a claim reads one task and not all that
// might be next. It returns none if the first one listed may not be the first one free:
// a claim may have ended without a commit, or a claim was refused.
func (r *selection) glance(tx *store.Tx, section string, p page) (out []candidate, err error) {
	if !r.Claim || r.close || r.Label != "" || p.due || r.open[section] {
		return nil, nil
	}
	if inForce, err := r.inForce(tx, p.claimed); err != nil || !inForce {
		return nil, err
	}
	for _, e := range r.untaken(p.ranked) {
		out = append(out, candidate{Task{ID: e.ID, Section: section, Priority: priority(e.key)}, e.key})
	}
	return out, nil
}

// inForce reports whether all of these claims are. Those that were due have been
// renewed.
func (r *selection) inForce(tx *store.Tx, claims []entry) (bool, error) {
	var leases []string
	var renewed []entry
	for _, e := range claims {
		if leases = append(leases, lease.NeedLease(e.Lease)); isDue(e.key, tx.Now()) {
			renewed = append(renewed, e)
		}
		if e.Lease == "" {
			return false, nil
		}
	}
	if err := tx.Want(leases...); err != nil {
		return false, err
	}
	for _, e := range claims {
		if held, err := lease.Holds(tx, e.Lease, e.ID); err != nil || !held {
			return false, err
		}
	}
	r.wrong = append(r.wrong, renewed...)
	return true, nil
}

// errRaced: another worker has just claimed the task.
var errRaced = errors.New("claimed by another worker")

// asListed makes sure that the index still lists the task, and that nobody holds it:
// what a close look would have seen.
func (c candidate) asListed(then func(*store.Tx, string) (string, error)) func(*store.Tx, string) (string, error) {
	return func(tx *store.Tx, id string) (string, error) {
		e, err := store.Get[indexRecord](tx, c.entry)
		if err != nil {
			return "", err
		}
		if !e.Exists() {
			return "", errRaced
		}
		switch lk, err := holder(tx, id); {
		case err != nil:
			return "", err
		case lk != nil:
			return "", &lease.HeldError{Info: *lk}
		}
		return then(tx, id)
	}
}

// free returns the tasks of a page that nobody holds: the first ones in order, and all
// of them up to the last. If they may not be the first, it returns none, and what the
// next look has to read.
func (r *selection) free(tx *store.Tx, p page) (out []Task, more pages, err error) {
	some, rest := r.untaken(p.claimed), r.untaken(p.ranked)
	last := "" // how far it has looked
	for n := r.ranked / 4; ; n *= 4 {
		next := rest[:min(n, len(rest))]
		if rest = rest[len(next):]; len(next) > 0 {
			last = place(next[len(next)-1].key)
		}
		got, err := r.closely(tx, append(some, next...))
		if err != nil {
			return nil, r.pages, err
		}
		out, some = append(out, got...), nil
		if len(rest) == 0 || slices.ContainsFunc(out, func(t Task) bool { return t.rank() <= last }) {
			break
		}
	}
	slices.SortFunc(out, func(a, b Task) int { return strings.Compare(a.rank(), b.rank()) })
	more = r.pages
	if len(rest) > 0 || p.more.ranked > r.ranked { // there are others behind the last
		out = slices.DeleteFunc(out, func(t Task) bool { return t.rank() > last })
	}
	if p.due || len(out) == 0 {
		return nil, p.more, nil
	}
	return out, more, nil
}

func (r *selection) untaken(list []entry) (out []entry) {
	for _, e := range list {
		if !r.taken[e.ID] {
			out = append(out, e)
		}
	}
	return out
}

// closely returns those of the tasks that may be claimed. It notes what others hold:
// the next look skips it.
func (r *selection) closely(tx *store.Tx, list []entry) (out []Task, err error) {
	var ids, leases []string
	for _, e := range list {
		if ids = append(ids, e.ID); e.Lease != "" {
			leases = append(leases, lease.NeedLease(e.Lease))
		}
	}
	if err := cmp.Or(tx.Want(append(taskKeys(ids), leases...)...), lease.WantLook(tx, ids...)); err != nil {
		return nil, err
	}
	for _, e := range list {
		t, err := getTask(tx, e.ID)
		if err != nil {
			return nil, err
		}
		lk, err := holder(tx, e.ID)
		if err != nil {
			return nil, err
		}
		if !e.belongs(t.Value) || lk != nil && lk.LeaseID == t.Value.ClaimLease && isDue(e.key, tx.Now()) && isApart(e.key) {
			r.wrong = append(r.wrong, e)
		}
		switch {
		case !t.Exists() || !t.Value.ready() || !e.within(t.Value.Section) || r.Label != "" && !slices.Contains(t.Value.Labels, r.Label):
		case lk != nil:
			r.taken[e.ID] = true
			r.holds = append(r.holds, lk.Guard())
		case slices.ContainsFunc(out, func(o Task) bool { return o.ID == e.ID }): // it has two entries
		default:
			out = append(out, t.Value)
		}
	}
	return out, nil
}

// belongs reports whether the index should have the entry.
func (e entry) belongs(t Task) bool { return e.key == t.readyKey() || e.key == t.trace() }

// within reports whether the entry is in the section's part of the index. An older
// tasklock that moves a task to another section leaves the entry of its claim behind.
func (e entry) within(section string) bool {
	return strings.HasPrefix(e.key, readyKind+sectionPrefix(section))
}

// holder returns a live lock on a task, even the caller's own: what it already
// works on is not next.
func holder(tx *store.Tx, id string) (*lease.Info, error) {
	lk, err := lease.Look(tx, id)
	if err != nil || lk == nil || lk.State != lease.Held {
		return nil, err
	}
	return lk, nil
}

// tidy moves entries of the index to where they belong, after a claim that has met
// them: a claim that was due and has been renewed, and what an older tasklock left. It
// is a commit of its own: no claim waits for it, and its failure is ignored.
func (r *selection) tidy(ctx context.Context, st *store.Store, claimed *NextResult) {
	if claimed == nil || claimed.Grant == nil || r.Acquire.DryRun || len(r.wrong) == 0 {
		return
	}
	const most = 50 // of one commit, so that each has its guard
	some := r.wrong[:min(most, len(r.wrong))]
	_, _ = st.Update(ctx, driver.Query{}, func(tx *store.Tx) error {
		var ids []string
		for _, e := range some {
			ids = append(ids, e.ID)
		}
		if err := cmp.Or(tx.Want(taskKeys(ids)...), lease.WantPeek(tx, ids...)); err != nil {
			return err
		}
		for _, e := range some {
			if err := e.move(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// move writes an entry where it belongs, with a later due time if the claim has been
// renewed.
func (e entry) move(tx *store.Tx) error {
	rec, err := getTask(tx, e.ID)
	if err != nil {
		return err
	}
	t := rec.Value
	lk, err := lease.Peek(tx, e.ID)
	if err != nil {
		return err
	}
	if t.ClaimDue != nil && lk != nil && lk.State == lease.Held && lk.LeaseID == t.ClaimLease && claimedUntil(lk).After(*t.ClaimDue) {
		t.ClaimDue = claimedUntil(lk)
		if err := tx.Put(taskKind+t.ID, t); err != nil {
			return err
		}
	}
	if e.belongs(t) {
		return nil
	}
	tx.Delete(e.key)
	if key := t.readyKey(); key != "" {
		return tx.Put(key, t.indexed(key))
	}
	return nil
}
