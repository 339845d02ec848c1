package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A Group is what one commit wrote to history. A watcher that has handled a group
// can go on later after the group's revision.
type Group struct {
	Rev    int64   `json:"rev"`
	Events []Event `json:"events,omitempty"` // in their order
	// Gap says that there may have been events up to Rev that the store no longer has,
	// or has only as a copy from another store. Such a group has no events.
	Gap bool `json:"gap,omitempty"`
}

// FromNow is the revision to watch from for a caller that wants no past.
const FromNow = -1

// AheadError: the store has not reached the revision to watch from. It belongs to
// another store, or to one of which an older copy was put back.
type AheadError struct{ Since, Newest int64 }

func (e *AheadError) Error() string {
	return fmt.Sprintf("revision %d is above %d, the newest of this store: it is of another store, or an older copy of this one was put back", e.Since, e.Newest)
}

// News is what happened after a revision.
type News struct {
	Groups []Group `json:"groups"` // in the order of commits
	Rev    int64   `json:"rev"`    // the newest revision that the look saw
}

// EventsSince returns all that happened after a revision, in the order of commits.
// The keys of events have another order: they begin with the time at which a
// transaction began. If some of it may be missing, the first group is a gap. What
// EventsSince returns lasts. With [FromNow] it returns the present revision.
func EventsSince(ctx context.Context, st *store.Store, since int64) (out News, err error) {
	if since < FromNow {
		return out, &InvalidError{What: "revision", Rule: "must not be negative"}
	}
	need := driver.Query{}
	if since != FromNow {
		need = driver.Query{Keys: []string{marksKey}, Ranges: []driver.Range{{Prefix: eventKind, Since: since}}}
	}
	err = st.View(ctx, need, func(tx *store.Tx) error {
		out = News{Rev: tx.Rev()}
		switch {
		case since == FromNow:
			tx.Affirm() // else the store may give out this revision again
			return nil
		case since > tx.Rev():
			return &AheadError{Since: since, Newest: tx.Rev()}
		}
		out.Groups, err = groupsSince(tx, since)
		return err
	})
	return out, err
}

// groupsSince reads the events after a revision, and makes sure that they last: who
// gets them may do what cannot be undone.
func groupsSince(tx *store.Tx, since int64) (groups []Group, err error) {
	recs, err := tx.ScanSince(eventKind, since)
	if err != nil {
		return nil, err
	}
	ms, err := store.Peek[marks](tx, marksKey)
	if err != nil {
		return nil, err
	}
	gap := ms.Value.pruned()
	inOrder(recs)
	for _, rec := range recs {
		e, err := event(tx, rec)
		if err != nil {
			return nil, err
		}
		switch last := len(groups) - 1; {
		case e.Was > 0:
			gap = max(gap, e.Rev)
		case e.Event == "":
		case last >= 0 && groups[last].Rev == e.Rev:
			groups[last].Events = append(groups[last].Events, e)
		default:
			groups = append(groups, Group{Rev: e.Rev, Events: []Event{e}})
		}
	}
	if len(groups) > 0 {
		tx.Affirm()
		if _, err := store.Get[Event](tx, recs[len(recs)-1].Key); err != nil {
			return nil, err
		}
	}
	return afterGap(groups, since, gap), nil
}

// afterGap puts a gap in the place of the groups up to its revision.
func afterGap(groups []Group, since, gap int64) []Group {
	if gap <= since {
		return groups
	}
	out := []Group{{Rev: gap, Gap: true}}
	for _, g := range groups {
		if g.Rev > gap {
			out = append(out, g)
		}
	}
	return out
}

// WatchRequest says where to begin.
type WatchRequest struct {
	Since int64 // with what later commits wrote; 0: with all that history has; or FromNow
}

// Watch calls fn for every group of events after a revision, in the order of
// commits, until ctx ends or fn returns an error. It loses none: if the history no
// longer has some of them, because fn took too long, say, fn gets a gap. ready, if it
// is not nil, learns the revision at which the watch begins. It is an [*AheadError]
// if the store is not there yet, now or later.
func Watch(ctx context.Context, st *store.Store, r WatchRequest, ready func(rev int64), fn func(Group) error) error {
	seen := r.Since
	for {
		began := time.Now()
		news, err := EventsSince(ctx, st, seen)
		if err != nil {
			return err
		}
		took := time.Since(began)
		if seen == FromNow {
			seen = news.Rev
		}
		if ready != nil {
			ready(seen)
			ready = nil
		}
		for _, g := range news.Groups {
			if err := fn(g); err != nil {
				return err
			}
			seen = g.Rev // not news.Rev: that may be of a commit that does not last
		}
		rest := min(watchRest*took, watchPoll/10)
		if err := cmp.Or(driver.Sleep(ctx, rest), waitAtMost(ctx, st, watchPoll, []driver.Guard{{Key: eventKind, Rev: news.Rev}})); err != nil {
			return err
		}
	}
}

const (
	watchPoll = 5 * time.Second // covers lost notifications
	watchRest = 4               // times as long as a look: a burst keeps no store busy with watchers
)

// waitAtMost waits for a change, for some time.
func waitAtMost(ctx context.Context, st *store.Store, d time.Duration, guards []driver.Guard) error {
	wctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := st.Wait(wctx, guards)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}
