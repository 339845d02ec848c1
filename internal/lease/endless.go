package lease

import (
	"encoding/json"
	"time"
)

// Endless is the ttl of a lease that only its owner ends, or someone who breaks
// it: for a person's own work. No process stands for it, so that none can end
// it by dying, and it needs no heartbeat.
//
// It is stored as this number, which lies outside of what other leases may have:
// a tasklock that does not know it calls the record damaged, never expired.
const Endless = 100 * 365 * 24 * time.Hour

// Expiry is when a lease ends unless it is renewed. Zero means that it has no
// end; JSON has null for it.
type Expiry struct{ time.Time }

// MarshalJSON is null for a lease without an end.
func (e Expiry) MarshalJSON() ([]byte, error) {
	if e.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(e.Time)
}

// sooner is the earlier of two ends.
func (e Expiry) sooner(other Expiry) Expiry {
	if e.IsZero() || !other.IsZero() && other.Before(e.Time) {
		return other
	}
	return e
}

// endsAfter is the end of a lease that lasts a ttl from t on.
func endsAfter(t time.Time, ttl time.Duration) Expiry {
	if ttl >= Endless {
		return Expiry{}
	}
	return Expiry{t.Add(ttl).UTC()}
}

func (l leaseRecord) endless() bool { return l.ttl() >= Endless }

// checkTTL is [CheckTTL] for a request that may ask for no end.
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
