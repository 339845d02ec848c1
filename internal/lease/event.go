package lease

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// An Event is one line of history. Packages above write their own with [Log].
type Event struct {
	Rev    int64     `json:"rev,omitempty"` // of the commit that wrote it; known after the commit, so it is not stored
	Was    int64     `json:"was,omitempty"` // its revision in the store that it was copied from
	Time   time.Time `json:"time,omitzero"`
	Event  string    `json:"event"`          // acquired, taken over, released, broken, expired, …
	Open   bool      `json:"open,omitempty"` // of "expired": nobody has taken over yet, and a late heartbeat renews it
	Keys   []string  `json:"keys,omitempty"`
	Owner  string    `json:"owner,omitempty"` // whose lease or task it is
	By     string    `json:"by,omitempty"`    // who did it, if that is someone else
	Lease  string    `json:"lease,omitempty"`
	Token  int64     `json:"token,omitempty"`
	Waited float64   `json:"waitedSeconds,omitempty"` // in the queue, before the grant
	Why    string    `json:"why,omitempty"`
	Reason string    `json:"reason,omitempty"` // in the words of the caller
}

// About reports whether an event is about a key, or about a slot of a pool.
func (e Event) About(key string) bool {
	return slices.Contains(e.Keys, key) || isPool(key) && slices.ContainsFunc(e.Keys, func(k string) bool { return queueOf(k) == key })
}

const eventTime = "20060102T150405.000000000Z"

// Log adds an event to the transaction. It also serves as the commit's
// receipt: the record's key is random.
func Log(tx *store.Tx, e Event) error {
	e.Rev, e.Time = 0, tx.Now().UTC()
	key := fmt.Sprintf("%s%s-%03d-%s", eventKind, e.Time.Format(eventTime), tx.Len(), NewID())
	tx.Receipt(key)
	note := e.Event
	for _, k := range e.Keys {
		note += " " + k
	}
	tx.Note(note + " by " + cmp.Or(e.By, e.Owner))
	tx.After(tidy)
	return tx.Put(key, e)
}

// HistoryRequest selects events.
type HistoryRequest struct {
	Key   string // of this key only
	Owner string // of this owner and its children only
	Limit int    // at most this many, the newest; 0: all
}

// HistoryResult holds events, oldest first.
type HistoryResult struct {
	Events []Event `json:"events"`
}

// History returns what happened. The token of an acquisition is the revision
// at which it was recorded.
func History(ctx context.Context, st *store.Store, r HistoryRequest) (HistoryResult, error) {
	limit := 0
	if r.Limit < 0 {
		return HistoryResult{}, &InvalidError{What: "limit", Rule: "must not be negative"}
	}
	if r.Key != "" {
		var err error
		if r.Key, err = CheckKey(r.Key); err != nil {
			return HistoryResult{}, err
		}
	}
	if r.Key == "" && r.Owner == "" {
		limit = -r.Limit
	}
	var out HistoryResult
	var key string // of the task with this name
	need := driver.Query{Ranges: []driver.Range{{Prefix: eventKind, Limit: limit}}}
	err := st.View(ctx, need, func(tx *store.Tx) error {
		out.Events = nil
		if r.Key != "" {
			b, err := bearerOf(tx, r.Key)
			if err != nil {
				return err
			}
			key = b.ID
		}
		recs, err := tx.Scan(eventKind, limit)
		if err != nil {
			return err
		}
		inOrder(recs)
		for _, rec := range recs {
			ev, err := event(tx, rec)
			if err != nil {
				return err
			}
			if ev.Event != "" && (r.Key == "" || ev.About(r.Key) || ev.About(key)) && (r.Owner == "" || descends(ev.Owner, r.Owner)) {
				out.Events = append(out.Events, ev)
			}
		}
		return nil
	})
	if r.Limit > 0 && len(out.Events) > r.Limit {
		out.Events = out.Events[len(out.Events)-r.Limit:]
	}
	return out, err
}

// inOrder sorts by revision: the clocks of writers may differ, the order of
// commits does not.
func inOrder(recs []driver.Record) {
	slices.SortStableFunc(recs, func(a, b driver.Record) int { return cmp.Compare(a.Rev, b.Rev) })
}

// event decodes one record; one without a name is a void receipt. A grant's token
// is the revision of the record itself, known only after the commit.
func event(tx *store.Tx, rec driver.Record) (Event, error) {
	e, err := store.Decode[Event](tx, rec)
	if e.Value.Rev = e.Rev; e.Value.unnumbered() {
		e.Value.Token = e.Rev
	}
	return e.Value, err
}

// unnumbered reports that the token of a grant is the revision of its event.
func (e *Event) unnumbered() bool { return e.Token == 0 && e.Event == "acquired" }

// carried is the value of an event for another store, where its record has another
// revision: it contains the one it had here, and a grant's token. It returns a void
// or unreadable value unchanged.
func carried(rec driver.Record) []byte {
	var e Event
	if json.Unmarshal(rec.Value, &e) != nil || e.Event == "" || e.Was > 0 {
		return rec.Value
	}
	fields, _ := bytes.CutSuffix(bytes.TrimSpace(rec.Value), []byte("}"))
	value := fmt.Appendf(slices.Clip(fields), `,"was":%d`, rec.Rev)
	if e.unnumbered() {
		value = fmt.Appendf(value, `,"token":%d`, rec.Rev)
	}
	if value = append(value, '}'); len(value) > driver.MaxValue {
		return rec.Value
	}
	return value
}
