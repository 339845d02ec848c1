package lease

import (
	"slices"

	"github.com/tasklock/tasklock/store"
)

// A lock's past is gone with its record; history has it for a while. It is read
// only if a call is about to be refused, or has nothing to do.

// pastWindow is how many of the last events are read first: what is wanted has
// mostly just ended.
const pastWindow = -500

// past returns the last event that fits, or one without a name.
func past(tx *store.Tx, fits func(Event) bool) (Event, error) {
	for _, limit := range []int{pastWindow, 0} {
		recs, err := tx.Scan(eventKind, limit)
		if err != nil {
			return Event{}, err
		}
		recs = slices.Clone(recs)
		inOrder(recs)
		for _, rec := range slices.Backward(recs) {
			ev, err := event(tx, rec)
			if err != nil {
				return Event{}, err
			}
			if ev.Lease != "" && fits(ev) {
				return ev, nil
			}
		}
		if len(recs) < -pastWindow {
			break
		}
	}
	return Event{}, nil
}

// NotHeld is the error of a caller that must hold a key and does not. It
// distinguishes a lost key from one that the caller never had.
func NotHeld(tx *store.Tx, key, caller string) error {
	lk, err := getLock(tx, key)
	if err != nil {
		return err
	}
	had, err := past(tx, func(e Event) bool { return e.About(key) && MayUse(caller, e.Owner) })
	if err != nil {
		return err
	}
	return &LostError{Key: key, Owner: lk.Value.Owner, Now: lk.Rev, Never: unless(had, caller)}
}

// noLease is NotHeld for a lease that does not exist.
func noLease(tx *store.Tx, name, caller string) error {
	had, err := past(tx, func(e Event) bool { return e.Lease == name })
	if err != nil {
		return err
	}
	return &LostError{Key: "lease " + name, Never: unless(had, caller)}
}

func unless(had Event, caller string) string {
	if had.Event != "" {
		return ""
	}
	return caller
}

// noteNever notes a free key that neither the caller of a release nor one of its
// children ever held: the caller may have meant another one.
func (r *release) noteNever(tx *store.Tx, key string, out *ReleaseResult) error {
	had, err := past(tx, func(e Event) bool {
		return e.About(key) && (MayUse(r.Owner, e.Owner) || descends(e.Owner, r.Owner))
	})
	if err == nil && had.Event == "" {
		out.Never = append(out.Never, key)
	}
	return err
}
