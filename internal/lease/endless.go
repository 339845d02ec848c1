package lease

import (
	"encoding/json"
	"time"
)

// Endless is the ttl of a lease that never expires: only its owner ends it, or
// someone who breaks it. It is for a person's own work. It has no process, so
// that no death can end it, and needs no heartbeat.
//
// It is stored as this number, which no other lease may have: a tasklock that
// does not know it calls the record damaged, never expired.
const Endless = 100 * 365 * 24 * time.Hour

// Expiry is when a lease expires unless it is renewed. Zero means never, null in
// JSON.
type Expiry struct{ time.Time }

// MarshalJSON is null for a lease that never expires.
func (e Expiry) MarshalJSON() ([]byte, error) {
	if e.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(e.Time)
}

// sooner is the earlier of two expiries.
func (e Expiry) sooner(other Expiry) Expiry {
	if e.IsZero() || !other.IsZero() && other.Before(e.Time) {
		return other
	}
	return e
}

// endsAfter is the expiry of a lease that lasts a ttl from t on.
func endsAfter(t time.Time, ttl time.Duration) Expiry {
	if ttl >= Endless {
		return Expiry{}
	}
	return Expiry{t.Add(ttl).UTC()}
}

func (l leaseRecord) endless() bool { return l.ttl() >= Endless }

// checkTTL is [CheckTTL] for a request that may ask for a lease without expiry.
func (a *acquisition) checkTTL() error {
	bad := func(rule string) error { return &InvalidError{What: "ttl none", Rule: rule} }
	switch {
	case a.ttl != Endless:
		return CheckTTL(a.ttl)
	case a.user:
		return bad("goes with a lock that is released by hand, not with one that a process holds; leave the ttl out")
	case a.req.Process.PID != 0 || a.req.Group != 0:
		return bad("does not go with a process that ends the lock")
	case a.req.MaxHold != 0:
		return bad("does not go with a bound on how long the lock is held")
	}
	return nil
}
