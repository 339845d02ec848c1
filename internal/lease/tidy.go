package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// The writers of past records keep them few. After about one commit in forty
// the writer makes another that deletes some old ones. It is separate from the
// commit before it: it delays no contended grant, and when it fails another one
// comes. It is small, because somebody waits for it.
//
// The age of an event is the number of later events. Revisions do not give that:
// other users of an etcd count too, and a store that is restored or raised jumps
// ahead ([driver.Lift]). So the same commit notes a mark: the revision before it
// and how many events that stands for.

const (
	keepEvents = 10_000         // events that history keeps
	keepTokens = 24 * time.Hour // receipts of requests
	tidyEvery  = 40             // events, or receipts, for one commit that deletes old ones
	tidyStep   = 60             // events that it looks at
	tidyLong   = 4 * tidyStep   // and if there are many old ones
	markEvents = 100            // events of a mark
	tidyMost   = 2000           // events that a search of all of them deletes
	tidyTime   = 5 * time.Second
	marksKey   = "history/marks"
)

// marks say how old events are: record history/marks.
type marks struct {
	Marks []mark `json:"marks"`           // oldest first
	Below int64  `json:"below,omitempty"` // events up to this revision are too old, and may be deleted: see pruned
	Gone  int64  `json:"gone,omitempty"`  // the revision at which an unreadable record was replaced: nobody knows what was deleted before
	Over  int    `json:"over,omitempty"`  // about how many of them still exist
	Step  int    `json:"step,omitempty"`  // how many events to look at next time
	Whole bool   `json:"whole,omitempty"` // uncounted events, before the first mark, were searched everywhere

	Receipts int `json:"receipts,omitempty"` // how many the last look at them left
	Since    int `json:"since,omitempty"`    // about how many came since
}

// A mark stands for a number of events, the last of them at Rev.
type mark struct {
	Rev    int64 `json:"rev"`
	Events int   `json:"events"`
}

// tidy follows a commit that wrote events or receipts. Its caller waits for it, so
// it takes a few seconds at most.
func tidy(ctx context.Context, done store.Applied) {
	events, requests := done.Written[eventKind], done.Written[requestKind]
	if !drawn(done.Rev, max(events, requests)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	if drawn(done.Rev, events) {
		_ = tidyEvents(ctx, done.Store, mark{Rev: done.Rev, Events: max(events, tidyEvery)})
	}
	if drawn(done.Rev, requests) {
		_ = tidyRequests(ctx, done.Store, max(requests, tidyEvery))
	}
}

// drawn chooses the commits that another one follows: of tidyEvery commits that
// wrote n records, n. A revision belongs to one commit, so this is decided once
// for each, however often its function ran. It chooses another one of each such number of
// revisions, because the revisions of a writer may have a pattern.
func drawn(rev int64, n int) bool {
	mixed := uint64(rev/tidyEvery+1) * 0x9E3779B97F4A7C15
	mixed = (mixed ^ mixed>>32) * 0x9E3779B97F4A7C15 >> 32
	return (uint64(rev)+mixed)%tidyEvery < uint64(n)
}

// tidyEvents adds a mark and deletes events that are too old, some at a time.
func tidyEvents(ctx context.Context, st *store.Store, m mark) error {
	var likely []driver.Range
	if m.Rev >= keepEvents { // else there are hardly any that are too old
		likely = []driver.Range{{Prefix: eventKind, Limit: atOnce(m.Events)}}
	}
	return updateMarks(ctx, st, likely, func(tx *store.Tx, ms *marks) error {
		if len(ms.Marks) == 0 && !ms.Whole {
			recs, err := tx.Scan(eventKind, tidyLong)
			if err != nil {
				return err
			}
			ms.Whole = len(recs) < tidyLong // a new store
		}
		ms.add(m)
		tx.Note("history: old events")
		return ms.drop(tx, m.Events)
	})
}

// tidyRequests counts receipts, and deletes old ones when there may be as many new
// ones as the last look left: it looks at all of them.
func tidyRequests(ctx context.Context, st *store.Store, n int) error {
	look := false
	err := updateMarks(ctx, st, nil, func(tx *store.Tx, ms *marks) error {
		ms.Since += n
		look = ms.Since >= max(markEvents, ms.Receipts)
		return nil
	})
	if err != nil || !look {
		return err
	}
	_, left, err := dropRequests(ctx, st, 10)
	if err != nil {
		return err
	}
	return updateMarks(ctx, st, nil, func(_ *store.Tx, ms *marks) error {
		ms.Receipts, ms.Since = left, 0
		return nil
	})
}

func updateMarks(ctx context.Context, st *store.Store, likely []driver.Range, fn func(*store.Tx, *marks) error) error {
	need := driver.Query{Keys: []string{marksKey}, Ranges: likely}
	_, err := st.Update(ctx, need, func(tx *store.Tx) error {
		rec, err := store.Get[marks](tx, marksKey)
		if errors.Is(err, driver.ErrDamaged) { // start again: that deletes nothing too early
			rec.Value, err = marks{Gone: tx.Rev()}, nil
		}
		if err != nil {
			return err
		}
		if err := fn(tx, &rec.Value); err != nil {
			return err
		}
		return tx.Put(marksKey, rec.Value)
	})
	return err
}

// pruned is the highest revision at which an event may be missing. The commit that
// deletes events writes it.
func (ms *marks) pruned() int64 { return max(ms.Below, ms.Gone) }

// add notes a mark, and moves Below to the newest revision after which enough
// events came.
func (ms *marks) add(m mark) {
	last := len(ms.Marks) - 1
	switch {
	case slices.ContainsFunc(ms.Marks, func(o mark) bool { return o.Rev == m.Rev }):
	case last >= 0 && ms.Marks[last].Events < markEvents && ms.Marks[last].Rev < m.Rev:
		ms.Marks[last] = mark{Rev: m.Rev, Events: ms.Marks[last].Events + m.Events}
	default:
		ms.Marks = append(ms.Marks, m)
	}
	slices.SortFunc(ms.Marks, func(a, b mark) int { return int(min(max(a.Rev-b.Rev, -1), 1)) })
	since := 0
	for i, m := range slices.Backward(ms.Marks) {
		if since >= keepEvents {
			for _, old := range ms.Marks[:i+1] {
				ms.Over += old.Events
			}
			ms.Below, ms.Marks = max(ms.Below, m.Rev), slices.Clone(ms.Marks[i+1:])
			return
		}
		since += m.Events
	}
}

// atOnce is how many events to look at after so many were written.
func atOnce(written int) int { return max(tidyStep, written+written/2) }

// drop deletes some of the oldest events up to Below, more than were written. They
// are the first by their time, unless the clocks of writers differ: if it finds
// fewer than there should be, it searches all events, which is expensive and rare.
func (ms *marks) drop(tx *store.Tx, written int) error {
	if ms.Below == 0 {
		return nil
	}
	limit := min(max(atOnce(written), min(ms.Step, tidyLong)), tidyMost)
	recs, err := tx.Scan(eventKind, limit)
	if err != nil {
		return err
	}
	old := ms.old(recs)
	ms.Step, ms.Over = 0, max(0, ms.Over-len(old))
	switch {
	case len(old) == limit:
		if ms.Over > limit || !ms.Whole { // there may be many more
			ms.Step = 2 * limit
		}
	case ms.Over > tidyMost || !ms.Whole:
		if recs, err = tx.Scan(eventKind, 0); err != nil {
			return err
		}
		old = ms.old(recs)
		ms.Over = max(0, len(old)-tidyMost)
		ms.Whole = ms.Over == 0
	}
	for _, key := range old[:min(len(old), tidyMost)] {
		tx.Delete(key)
	}
	return nil
}

// old returns the events up to Below.
func (ms *marks) old(recs []driver.Record) (keys []string) {
	for _, r := range recs {
		if r.Rev <= ms.Below {
			keys = append(keys, r.Key)
		}
	}
	return keys
}

// prune deletes what exceeds the limits, and returns how much that is. An event
// is written once under a key that is used once, so it needs no guard.
func (r CleanupRequest) prune(ctx context.Context, st *store.Store) (n int, err error) {
	var old []driver.Record
	err = st.View(ctx, driver.Query{Ranges: []driver.Range{{Prefix: eventKind}}}, func(tx *store.Tx) error {
		recs, err := tx.Scan(eventKind, 0)
		if err != nil {
			return err
		}
		old = slices.Clone(recs)
		inOrder(old)
		old = old[:max(0, len(old)-keepEvents)]
		return nil
	})
	if err != nil {
		return 0, err
	}
	if r.DryRun {
		more, _, err := oldRequests(ctx, st)
		return len(old) + len(more), err
	}
	for chunk := range slices.Chunk(old, tidyMost) {
		err := updateMarks(ctx, st, nil, func(tx *store.Tx, ms *marks) error {
			for _, rec := range chunk {
				tx.Delete(rec.Key)
			}
			ms.Below = max(ms.Below, chunk[len(chunk)-1].Rev)
			tx.Note("history: old events")
			return nil
		})
		if err != nil {
			return n, err
		}
		n += len(chunk)
		r.progress(n, len(old))
	}
	more, _, err := dropRequests(ctx, st, 0)
	return n + more, err
}

// oldRequests are the receipts whose time is over, and how many there are in all.
func oldRequests(ctx context.Context, st *store.Store) (old []string, all int, err error) {
	err = st.View(ctx, driver.Query{Ranges: []driver.Range{{Prefix: requestKind}}}, func(tx *store.Tx) error {
		recs, err := tx.Scan(requestKind, 0)
		old, all = nil, len(recs)
		for _, rec := range recs {
			if tx.Now().Sub(rec.Time) > keepTokens {
				old = append(old, rec.Key)
			}
		}
		return err
	})
	return old, all, err
}

// dropRequests deletes receipts whose time is over, in at most this many commits;
// 0: all of them. Each is guarded: its name may be used again.
func dropRequests(ctx context.Context, st *store.Store, commits int) (n, left int, err error) {
	const atOnce = 80
	old, all, err := oldRequests(ctx, st)
	if err != nil {
		return 0, 0, err
	}
	if commits > 0 {
		old = old[:min(len(old), commits*atOnce)]
	}
	for chunk := range slices.Chunk(old, atOnce) {
		dropped := 0
		_, err := st.Update(ctx, driver.Query{Keys: chunk}, func(tx *store.Tx) error {
			dropped = 0
			for _, key := range chunk {
				rec, err := store.Get[struct{}](tx, key)
				if err == nil && rec.Exists() && rec.Age > keepTokens {
					tx.Delete(key)
					dropped++
				}
			}
			return nil
		})
		if err != nil {
			return n, all - n, err
		}
		n += dropped
	}
	return n, all - n, nil
}
