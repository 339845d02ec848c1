package lease

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// ListRequest selects locks.
type ListRequest struct {
	Owner string // of this owner and its children
	Kind  Kind   // of this kind
	After string // only keys above this text, in byte order
	Limit int    // at most this many; 0: all, in one view of the store
}

// ListResult holds locks in the order of their keys.
type ListResult struct {
	Locks []Info `json:"locks"`
	Next  string `json:"next,omitempty"` // if there may be more: the After of the next page
}

// List returns the locks, expired ones too: their state says so. With a Limit it
// reads the locks that it returns, and those that it passes over because they are of
// another owner or kind. A lock that is held while a caller reads page after page is
// on one of the pages.
func List(ctx context.Context, st *store.Store, r ListRequest) (ListResult, error) {
	if err := CheckAfter(r.After); err != nil {
		return ListResult{Locks: []Info{}}, err
	}
	if r.Limit <= 0 {
		return r.whole(ctx, st)
	}
	out := ListResult{Locks: []Info{}}
	for after := r.After; ; {
		p, err := r.part(ctx, st, after, r.Limit-len(out.Locks))
		if err != nil {
			return ListResult{Locks: []Info{}}, err
		}
		out.Locks, after = append(out.Locks, p.locks...), p.last
		switch {
		case p.end:
			return out, nil
		case len(out.Locks) == r.Limit:
			out.Next = p.last
			return out, nil
		}
	}
}

// CheckAfter refuses text that cannot stand before a page of a list.
func CheckAfter(after string) error {
	switch {
	case !utf8.ValidString(after) || strings.IndexByte(after, 0) >= 0:
		return &InvalidError{What: "after", Rule: "is not text"}
	case len(after) > MaxKey:
		return &InvalidError{What: "after", Rule: fmt.Sprintf("has %d bytes, at most %d", len(after), MaxKey)}
	}
	return nil
}

func (r ListRequest) matches(lk lockRecord) bool {
	kind, _ := KindOf(lk.Key)
	return (r.Kind == "" || r.Kind == kind) && (r.Owner == "" || descends(lk.Owner, r.Owner))
}

// whole reads all locks in one view.
func (r ListRequest) whole(ctx context.Context, st *store.Store) (ListResult, error) {
	out := ListResult{Locks: []Info{}}
	err := st.View(ctx, Everything, func(tx *store.Tx) error {
		out.Locks = out.Locks[:0]
		return eachLock(tx, func(lk store.Entry[lockRecord], ls store.Entry[leaseRecord], q queueRecord) error {
			if lk.Value.Key > r.After && r.matches(lk.Value) {
				out.Locks = append(out.Locks, newInfo(lk, ls, q))
			}
			return nil
		})
	})
	slices.SortFunc(out.Locks, func(a, b Info) int { return cmp.Compare(a.Key, b.Key) })
	return out, err
}

// maxPart is how many locks one view reads for a page.
const maxPart = 500

// A listPart is what one view shows of a list.
type listPart struct {
	locks []Info
	last  string // the key up to which it looked
	end   bool   // there is none above that
}

// part looks for at most most locks.
func (r ListRequest) part(ctx context.Context, st *store.Store, after string, most int) (p listPart, err error) {
	most = min(most, maxPart)
	n := most + 1
	if r.Owner != "" || r.Kind == Task { // it passes over others
		n = maxPart + 1
	}
	ranges := r.ranges(after, n)
	err = st.View(ctx, driver.Query{Ranges: ranges}, func(tx *store.Tx) error {
		all, err := locksOf(tx, ranges)
		if err != nil {
			return err
		}
		all = all[:min(n, len(all))] // above these, one range may have more than was read
		p = listPart{last: after, end: len(all) < n}
		var shown []store.Entry[lockRecord]
		for _, lk := range all {
			if r.matches(lk.Value) {
				if len(shown) == most {
					p.end = false
					break
				}
				shown = append(shown, lk)
			}
			p.last = lk.Value.Key
		}
		p.locks, err = infosOf(tx, shown)
		return err
	})
	return p, err
}

// ranges are the records of at most n locks after a key, of each kind of record.
func (r ListRequest) ranges(after string, n int) (out []driver.Range) {
	paths := Path.Key("")
	if r.Kind != Path {
		prefix := lockKind
		if slices.Contains(prefixes, r.Kind) {
			prefix += r.Kind.Key("")
		}
		out = append(out, driver.Range{Prefix: prefix, After: lockKind + after, Limit: n})
	}
	if r.Kind != "" && r.Kind != Path {
		return out
	}
	switch name, within := strings.CutPrefix(after, paths); {
	case within:
		out = append(out, driver.Range{Prefix: pathKind, After: pathKind + name, Limit: n})
	case after < paths:
		out = append(out, driver.Range{Prefix: pathKind, Limit: n})
	}
	return out
}

// locksOf returns the locks of ranges in the order of their keys.
func locksOf(tx *store.Tx, ranges []driver.Range) (all []store.Entry[lockRecord], missing error) {
	for _, rg := range ranges {
		recs, err := tx.Range(rg)
		missing = cmp.Or(missing, err)
		for _, rec := range recs {
			lk, err := store.Decode[lockRecord](tx, rec)
			if err != nil {
				return nil, err
			}
			all = append(all, lk)
		}
	}
	slices.SortFunc(all, func(a, b store.Entry[lockRecord]) int { return cmp.Compare(a.Value.Key, b.Value.Key) })
	return all, missing
}

// infosOf reads the leases and queues of locks, guarding none.
func infosOf(tx *store.Tx, locks []store.Entry[lockRecord]) ([]Info, error) {
	var keys []string
	for _, lk := range locks {
		keys = append(keys, leaseKind+lk.Value.Lease, queueKind+queueOf(lk.Value.Key))
	}
	if err := tx.Want(keys...); err != nil {
		return nil, err
	}
	var missing error // of the users of dead leases: all are read together
	out := make([]Info, len(locks))
	for i, lk := range locks {
		ls, err := peekLease(tx, lk.Value.Lease)
		missing = cmp.Or(missing, err)
		q, err := store.Peek[queueRecord](tx, queueKind+queueOf(lk.Value.Key))
		missing = cmp.Or(missing, err)
		out[i] = newInfo(lk, ls, q.Value)
	}
	return out, missing
}

// PeekAll is [Peek] of several keys: those that have a lock, by key.
func PeekAll(tx *store.Tx, keys []string) (map[string]*Info, error) {
	if err := WantPeek(tx, keys...); err != nil {
		return nil, err
	}
	var missing error
	out := make(map[string]*Info, len(keys))
	for _, key := range keys {
		i, err := Peek(tx, key)
		if missing = cmp.Or(missing, err); i != nil {
			out[key] = i
		}
	}
	return out, missing
}
