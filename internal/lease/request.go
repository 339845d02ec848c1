package lease

import (
	"errors"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
)

// AcquireRequest asks for all of its keys or none.
type AcquireRequest struct {
	Keys  []string
	Owner string

	// ID names the request, so that repeating it has one effect, even after its
	// lease has ended. Empty: a random one, which nobody can repeat.
	ID string

	// Digest, with ID, stands for all that the request asks for, see [Digest]: the same
	// ID with another one is refused. Empty: the ID stands for the keys.
	Digest string

	// Holder, with Hold, is the last part of the holder's name. Empty: a random
	// one. A named holder can come back, so its place in the queue stays when its
	// wait was too short.
	Holder string

	// Stay, with a Holder: the request does not wait, but if it is blocked it takes a
	// place in the queue, which lasts while this process lives. The same holder keeps
	// the place when it asks again, within ten seconds, also if only the queue is the
	// same and another key is not, or leaves it by [LeaveQueue].
	Stay bool

	// For, with Hold, is the owner, or a parent of it, that works while this is
	// held, and does nothing while this waits. Empty: the holder works alone. The
	// search for deadlocks goes by it.
	For string

	TTL        time.Duration // the lease ends after this long without a heartbeat; 0: the default; Endless: never
	DefaultTTL time.Duration // of a new lease that nobody renews; 0: by the kind of the keys
	MaxHold    time.Duration // nobody can renew it beyond this; 0: no limit
	Wait       time.Duration // how long to wait in all; 0: not at all

	// Remote: a client of a server asks, not a process of this machine. Neither
	// its lease nor its ticket names a process, and the ticket stays when ctx ends: the
	// client may come back, here or at another server. It works while it holds, like a
	// holder of [Hold], but the lease has the name of Owner.
	Remote bool

	Process  host.Process // whose death ends the lease; zero: none
	Group    int          // together with this process group; 0: none
	Worktree string
	Session  string
	Label    string // the person or agent behind the owner, for people
	Reason   string

	// Slots is the size of the pools among the keys: it creates a pool, or must be
	// the size that it has. 0: the pool must exist.
	Slots int
	// Take is how many slots of each pool among the keys the owner has after the
	// grant; 0: one; [TakeAll]: all, and nobody else has one.
	Take int
	// Near is the slot to take if it is free, for a worker that had it before: those
	// who come back to their slots do not meet. 0: a random one.
	Near int

	DryRun bool // say what would happen, change nothing

	// Force takes the keys from their holders, and passes every waiter: see
	// force.go. It needs a Reason.
	Force bool

	// Exact: the keys are ids of tasks. Each gets its own lock, even if the owner
	// holds the task under a name that it locked before the task had it.
	Exact bool

	// First, if set, adds its own writes before anything is acquired: they are
	// committed with the grant or not at all. It excludes a wait.
	First func(tx *store.Tx) error

	// OuterKey, if set, names the outer key of a key, or "": the section of a
	// task. It is acquired with it. See outer.go.
	OuterKey func(tx *store.Tx, key string) (string, error)

	// Need names further records that OuterKey and Then will ask for, so that one
	// round trip reads them all.
	Need []string

	// Then, if set, adds its own writes to the commit that grants.
	Then func(tx *store.Tx, g *Grant) error

	// Waiting, if set, is called at the start of a wait and whenever something
	// changes.
	Waiting func(HeldError)
}

// check says which rule the request breaks. Its keys and owner are already
// checked.
func (a *acquisition) check() error {
	r := a.req
	switch {
	case r.MaxHold < 0 || r.MaxHold > maxMaxHold:
		return &InvalidError{What: "max hold " + r.MaxHold.String(), Rule: "must be between 0 and 8760h (a year)"}
	case r.For != "" && !descends(r.Owner, r.For):
		return &InvalidError{What: "for " + quote(r.For), Rule: "must be the owner or a parent of it"}
	case r.Remote && (r.ID == "" || r.Stay || r.Process.PID != 0 || r.Group != 0):
		return &InvalidError{What: "a client of a server", Rule: "needs a request id and has no process"}
	case r.Stay && r.Holder == "":
		return &InvalidError{What: "a place in the queue", Rule: "needs the name of a holder"}
	case (r.Wait != 0 || r.Stay) && r.First != nil:
		return &InvalidError{What: "wait", Rule: "does not go with a commit that does more than take keys"}
	case r.Wait < 0 || r.Wait > MaxTTL:
		return &InvalidError{What: "wait " + r.Wait.String(), Rule: "must be between 0 and 720h (30 days)"}
	}
	return errors.Join(checkID(a.fresh), a.checkTTL(), r.checkForce(), r.checkPools(),
		checkText("reason", r.Reason), checkText("worktree", r.Worktree), checkText("session", r.Session), checkText("label", r.Label))
}
