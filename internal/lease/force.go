package lease

import (
	"fmt"
	"slices"
)

// A forced request breaks whoever is in its way and takes the keys in the same
// commit, so that nobody gets in between: also nobody who waits for them. What
// it breaks is what [Break] would: whole leases, of which the history says by
// whom and why.

func (r AcquireRequest) checkForce() error {
	if r.Force && r.Reason == "" {
		return &InvalidError{What: "a take-over by force", Rule: "needs a reason, for its holder and the history: --reason TEXT"}
	}
	return nil
}

// endsFor is why a lease in that state ends: one that is in force is broken.
func endsFor(s State) State {
	if s == Held {
		return Broken
	}
	return s
}

// ending is how a lease ends that the grant replaces.
func (a *acquisition) ending(v victim) ending {
	if v.why == Broken {
		return ending{event: "broken", by: a.req.Owner, reason: a.req.Reason}
	}
	return ending{event: "taken over", by: a.req.Owner, why: string(v.why)}
}

// tooMany refuses to break more than one commit can: some would end, and the
// keys might still go to somebody else.
func tooMany(victims []victim) error {
	names := victimLeases(victims)
	slices.Sort(names)
	return &InvalidError{
		What: fmt.Sprintf("%d leases", len(slices.Compact(names))),
		Rule: "are in the way, more than can be broken in one step: break some of them first, for example " + quote(victims[0].key),
	}
}
