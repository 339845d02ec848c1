package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// An attached holder looks at its locks about once a second, together with all
// others of its process: see [store.Store.Follow]. So it learns soon that its
// lease ended: the next heartbeat may be minutes away.

// followed are the records that show whether the lease is lost.
func (l *Lease) followed() iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range l.held.tokens {
			if !yield(recordOf(key)) {
				return
			}
		}
		if len(l.held.record.Using) > 0 { // it has no lock that would show its end
			yield(leaseKind + l.held.own)
		}
	}
}

// look is for [store.Store.Follow]: a lock that is no longer at its token means
// that the lease is lost.
func (l *Lease) look(tx *store.Tx) (told func(), err error) {
	peace := false
	for key, token := range l.held.tokens {
		rev, err := tx.RevOf(recordOf(key))
		switch {
		case err != nil:
			return nil, err
		case rev == token:
			continue
		}
		ev, err := endOf(tx, l.held.names, key, token)
		if err != nil {
			return nil, err
		}
		if rev == 0 && ev.Event == "released" && strings.HasPrefix(ev.By, l.grant.Owner+"/") {
			peace = true // its own command ended it, and may finish while no other owner has come
			continue
		}
		lost := &LostError{Key: key, Token: token, Now: rev, Why: ev.ending()}
		return func() { l.lose(lost) }, nil
	}
	if len(l.held.record.Using) > 0 && !peace {
		if rev, err := tx.RevOf(leaseKind + l.held.own); err != nil || rev != 0 {
			return nil, err
		}
		return func() { l.lose(l.useEnded()) }, nil
	}
	return nil, nil
}

// useEnded is the loss of a lease that uses keys of another one: that one may go
// on, and others may work under it now.
func (l *Lease) useEnded() error {
	return &LostError{Key: l.grant.Keys[0].Key, Token: l.grant.Token, Why: "its own lease, " + l.held.own + ", was ended"}
}

// explain adds to a loss who caused it.
func (l *Lease) explain(ctx context.Context, err error) error {
	var lost *LostError
	if !errors.As(err, &lost) || lost.Why != "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var ev Event
	_ = l.st.View(ctx, driver.Query{}, func(tx *store.Tx) (err error) { // without an answer the loss stays unexplained
		ev, err = endOf(tx, l.held.names, lost.Key, l.held.tokens[lost.Key])
		return err
	})
	why := *lost
	why.Why = ev.ending()
	return &why
}

// endLook is how many events are searched for the end of a lease.
const endLook = 200

// endOf finds the event that ended one of the leases, or the grant of that key
// and token. It is empty if the last events have none. Unreadable events do not
// count.
func endOf(tx *store.Tx, leases []string, key string, token int64) (Event, error) {
	recs, err := tx.Scan(eventKind, -endLook)
	if err != nil {
		return Event{}, err
	}
	inOrder(recs)
	var names [][]byte // as the records have them
	for _, name := range leases {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(name) // text
		names = append(names, bytes.TrimSpace(buf.Bytes()))
	}
	for _, rec := range recs {
		if rec.Rev < token || !slices.ContainsFunc(names, func(name []byte) bool { return bytes.Contains(rec.Value, name) }) {
			continue
		}
		ev, err := event(tx, rec)
		if err == nil && ev.Event != "acquired" && !ev.Open && slices.Contains(leases, ev.Lease) && slices.Contains(ev.Keys, key) {
			return ev, nil
		}
	}
	return Event{}, nil
}

// ending describes how an event ended a lease; empty if it did not.
func (e Event) ending() string {
	if e.Event == "" {
		return ""
	}
	text := e.Event
	if e.By != "" {
		text += " by " + e.By
	}
	if e.Why != "" {
		text += ", " + e.Why
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}
