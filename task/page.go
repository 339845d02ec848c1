package task

import (
	"cmp"
	"context"
	"slices"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// maxPart is how many tasks one view reads for a page.
const maxPart = 250

// A listPart is what one view shows of a list.
type listPart struct {
	tasks []Info
	last  string // the id up to which it looked
	end   bool   // there is none above that
}

// pages reads a list in parts until a page is full.
func (r ListRequest) pages(ctx context.Context, st *store.Store) (ListResult, error) {
	if err := lease.CheckAfter(r.After); err != nil {
		return ListResult{}, err
	}
	out := ListResult{Tasks: []Info{}}
	for after := r.After; ; {
		most := maxPart
		if r.Limit > 0 {
			most = min(most, r.Limit-len(out.Tasks))
		}
		p, err := r.part(ctx, st, after, most, true)
		if err != nil {
			return ListResult{}, err
		}
		out.Tasks, after = append(out.Tasks, p.tasks...), p.last
		switch {
		case p.end:
			return out, nil
		case len(out.Tasks) == r.Limit:
			out.Next = p.last
			return out, nil
		}
	}
}

// filters reports whether a list passes over tasks.
func (r ListRequest) filters() bool {
	return len(r.Status) > 0 || r.Section != "" || r.Label != "" || r.Owner != "" || r.Ready || r.Stalled || r.Older > 0
}

// part looks for at most most tasks after an id, with their texts or without.
func (r ListRequest) part(ctx context.Context, st *store.Store, after string, most int, texts bool) (p listPart, err error) {
	n := most + 1
	if r.filters() {
		n = maxPart + 1
	}
	kind := r.recordKind()
	rg := driver.Range{Prefix: kind, After: kind + after, Limit: n}
	err = st.View(ctx, driver.Query{Ranges: []driver.Range{rg}}, func(tx *store.Tx) error {
		all, err := r.infos(tx, rg)
		if err != nil {
			return err
		}
		p = listPart{last: after, end: len(all) < n}
		for _, i := range all {
			if r.matches(i, tx.Now()) {
				if len(p.tasks) == most {
					p.end = false
					break
				}
				p.tasks = append(p.tasks, i)
			}
			p.last = i.ID
		}
		if !texts {
			return nil
		}
		var shown []*Task
		for i := range p.tasks {
			shown = append(shown, &p.tasks[i].Task)
		}
		return withTexts(tx, shown...)
	})
	return p, err
}

// infos returns the tasks of a range, and reads only the locks and sections of these.
func (r ListRequest) infos(tx *store.Tx, rg driver.Range) ([]Info, error) {
	recs, err := tx.Range(rg)
	if err != nil {
		return nil, err
	}
	all, ids, names := make([]Task, len(recs)), make([]string, len(recs)), []string{}
	for i, rec := range recs {
		e, err := store.Decode[Task](tx, rec)
		if err != nil {
			return nil, err
		}
		all[i], ids[i] = e.Value, e.Value.ID
		if e.Value.Section != "" {
			names = append(names, e.Value.Section)
		}
	}
	locks, missing := lease.PeekAll(tx, ids)
	slices.Sort(names)
	closed, err := r.closedAmong(tx, slices.Compact(names))
	if err := cmp.Or(missing, err); err != nil {
		return nil, err
	}
	out := make([]Info, len(all))
	for i, t := range all {
		out[i] = newInfo(t, locks[t.ID])
		out[i].Ready = out[i].Ready && !closed[t.Section] && !r.Archived
	}
	return out, nil
}

// closedAmong returns which of the sections are closed for the caller.
func (r ListRequest) closedAmong(tx *store.Tx, names []string) (map[string]bool, error) {
	missing := tx.Want(lease.Prefixed(sectionKind, names)...)
	locks, err := lease.PeekAll(tx, lease.Prefixed(sectionLock(""), names))
	if missing = cmp.Or(missing, err); missing != nil {
		return nil, missing
	}
	closed := map[string]bool{}
	for _, name := range names {
		s, err := store.Peek[Section](tx, sectionKind+name)
		if err == nil && s.Exists() {
			closed[name], err = r.closedFor(tx, s.Value, locks[sectionLock(name)])
		}
		missing = cmp.Or(missing, err)
	}
	return closed, missing
}
