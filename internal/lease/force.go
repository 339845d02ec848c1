package lease

import (
	"fmt"
	"slices"
)

// A forced request breaks every blocking lease and acquires the keys in the same
// commit, so that nobody gets them in between, not even a waiter. Like [Break] it
// ends whole leases, and the history says who did it and why.

func (r AcquireRequest) checkForce() error {
	if r.Force && r.Reason == "" {
		return &InvalidError{What: "a take-over by force", Rule: "needs a reason, for its holder and the history: --reason TEXT"}
	}
	return nil
}

// endsFor is why a lease in that state ends: one in force is broken.
func endsFor(s State) State {
	if s == Held {
		return Broken
	}
	return s
}

// ending is how the grant ends a lease that it replaces.
func (a *acquisition) ending(v victim) ending {
	if v.why == Broken {
		return ending{event: "broken", by: a.req.Owner, reason: a.req.Reason}
	}
	return ending{event: "taken over", by: a.req.Owner, why: string(v.why), waited: a.waited}
}

// tooMany refuses to break more than one commit can: some would end, and another
// owner might still get the keys.
func tooMany(victims []victim) error {
	names := victimLeases(victims)
	slices.Sort(names)
	return &InvalidError{
		What: fmt.Sprintf("%d leases", len(slices.Compact(names))),
		Rule: "are in the way, more than can be broken in one step: break some of them first, for example " + quote(victims[0].key),
	}
}
