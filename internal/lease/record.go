package lease

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
)

// The kinds of records of this package.
const (
	lockKind    = "lock/" // except those on paths: see path.go
	leaseKind   = "lease/"
	queueKind   = "queue/"
	eventKind   = "event/"
	requestKind = "request/"
)

// lockRecord is written once for a grant and deleted at its end: its revision is
// the fencing token.
type lockRecord struct {
	Key   string    `json:"key"`
	Lease string    `json:"lease"` // "<owner>/<id>"
	Owner string    `json:"owner"`
	Since time.Time `json:"since"`
}

// leaseRecord is rewritten by every heartbeat: its age is the time since the
// last heartbeat.
type leaseRecord struct {
	Owner        string    `json:"owner"`
	Keys         []string  `json:"keys,omitempty"`
	WaitsFor     []string  `json:"waitsFor,omitempty"` // a ticket, not a holder
	Takes        takes     `json:"takes,omitempty"`    // of a ticket: how many slots of a pool
	TTL          float64   `json:"ttlSeconds"`
	MaxHold      float64   `json:"maxHoldSeconds,omitempty"`
	Since        time.Time `json:"since"`
	RenewedAt    time.Time `json:"renewedAt"` // for display; expiry goes by the record's age
	Host         string    `json:"host,omitempty"`
	host.Process           // whose death ends the lease; pid 0: none
	Group        int       `json:"processGroup,omitempty"` // and this whole group's, if set
	Worktree     string    `json:"worktree,omitempty"`
	Session      string    `json:"session,omitempty"`
	Label        string    `json:"label,omitempty"`
	Reason       string    `json:"reason,omitempty"`
	Requested    bool      `json:"requested,omitempty"` // the id was given by the caller: leave a receipt
	Digest       string    `json:"digest,omitempty"`    // of the request: see [AcquireRequest]
	Attached     bool      `json:"attached,omitempty"`  // its holder works while it holds, and renews it
	For          string    `json:"for,omitempty"`       // who works under it, if not its owner: see deadlock.go
	Call         string    `json:"call,omitempty"`      // the call that wrote it
	Left         bool      `json:"left,omitempty"`      // released while in use: the process is that of a user

	// See users.go and outer.go.
	Using     []string          `json:"using,omitempty"`  // keys of other leases that this one works under
	OuterKeys map[string]string `json:"outer,omitempty"`  // key → the key around it
	Auto      []string          `json:"auto,omitempty"`   // keys that were acquired, or are waited for, only as outer keys
	Uses      []string          `json:"uses,omitempty"`   // leases that hold a key for this one
	UsedBy    []string          `json:"usedBy,omitempty"` // leases for which this one holds a key
	Direct    []string          `json:"direct,omitempty"` // those of them that use the key itself

	PutsBack map[string]string `json:"putsBack,omitempty"` // key → the record that its end writes: see putback.go

	kept bool // one of UsedBy is in force
}

// leaseName is the name of a lease whose record has the key.
func leaseName(key string) string { return key[len(leaseKind):] }

// State of a lock or ticket.
type State string

// The states. Only Held keeps others out.
const (
	Held    State = "held"
	Expired State = "expired" // silent for longer than its ttl
	Dead    State = "dead"    // its process is provably gone

	// Broken is why a grant replaced a lease that was in force.
	Broken State = "broken"
)

// Check recognises a damaged record: what cannot be understood must not count as
// free.
func (l lockRecord) Check(key string) error {
	if recordOf(l.Key) != key || l.Owner == "" || l.Owner != leaseOwner(l.Lease) {
		return errors.New("no lock of an owner's lease on that key")
	}
	return nil
}

// Check is for leases what it is for locks.
func (l leaseRecord) Check(key string) error {
	switch {
	case l.Owner == "" || l.Owner != leaseOwner(key[len(leaseKind):]):
		return errors.New("no lease of that owner")
	case l.For != "" && !descends(l.Owner, l.For):
		return errors.New("held for a stranger")
	case l.TTL < 0 || l.TTL > MaxTTL.Seconds() && !l.endless() || l.ttl() > Endless || l.MaxHold < 0 || l.MaxHold > maxMaxHold.Seconds():
		return errors.New("time out of range")
	case !l.holds() == (len(l.WaitsFor) == 0):
		return errors.New("neither holder nor ticket")
	}
	return nil
}

func (l leaseRecord) ticket() bool { return len(l.WaitsFor) > 0 }

// holds reports whether somebody works under the lease.
func (l leaseRecord) holds() bool { return len(l.Keys)+len(l.Using) > 0 }

// all are the keys that the lease acquired and those it uses.
func (l leaseRecord) all() []string { return slices.Concat(l.Keys, l.Using) }

// actor is who works under the lease, and does nothing while a ticket waits.
func (l leaseRecord) actor() string { return cmp.Or(l.For, l.Owner) }

func (l leaseRecord) ttl() time.Duration { return seconds(l.TTL) }

// window is the ttl, as far as max hold allows it at that age of the grant.
func (l leaseRecord) window(held time.Duration) time.Duration {
	if l.MaxHold > 0 {
		return min(l.ttl(), max(0, seconds(l.MaxHold)-held))
	}
	return l.ttl()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// stateOf decides whether a lease still keeps others out. A missing lease record
// means expired: it stayed behind in a move, see Carry.
func stateOf(e store.Entry[leaseRecord]) State {
	switch {
	case !e.Exists(), e.Age >= e.Value.ttl():
		return Expired
	case e.Value.gone():
		return Dead
	}
	return Held
}

// gone reports proof that the process of the lease has ended, and the whole group
// that works under the lease. Doubt is not proof.
func (l leaseRecord) gone() bool {
	if l.PID == 0 || l.kept || l.Process.Life() != host.Dead {
		return false
	}
	return l.Group == 0 || host.GroupLife(l.Group, l.Process) == host.Dead
}

// life is what is known of the process of the lease, or of the group that works
// under it.
func (l leaseRecord) life() host.Life {
	if l.PID == 0 {
		return host.Unknown
	}
	life := l.Process.Life()
	if life == host.Dead && l.Group != 0 {
		return host.GroupLife(l.Group, l.Process)
	}
	return life
}

// endsWith reports whether the lease ends with that process.
func (l leaseRecord) endsWith(p host.Process) bool { return l.PID == p.PID && l.Start == p.Start }

// keptBy looks at the leases that use one whose process is dead: while a command
// may still work under one of them, the lease does not count as dead.
func keptBy(ls store.Entry[leaseRecord], get func(name string) (store.Entry[leaseRecord], error)) (store.Entry[leaseRecord], error) {
	if len(ls.Value.UsedBy) == 0 || stateOf(ls) != Dead {
		return ls, nil
	}
	for _, name := range ls.Value.UsedBy {
		user, err := get(name)
		if err == nil {
			user, err = keptBy(user, get)
		}
		if err != nil {
			return ls, err
		}
		ls.Value.kept = ls.Value.kept || stateOf(user) == Held
	}
	return ls, nil
}

// watchable reports whether this process could ever prove the death of that one,
// so that looking once a second makes sense.
func (l leaseRecord) watchable() bool {
	return l.PID != 0 && l.Process.Life() != host.Unknown
}

// MayUse reports whether caller may use what owner holds: it is the owner, or a
// child of it.
func MayUse(caller, owner string) bool {
	return descends(caller, owner)
}

// holdsFor reports whether the caller may use what holder has locked, even if a
// server holds it for the caller.
func holdsFor(holder, caller string) bool {
	return MayUse(caller, holder) || Serves(holder, caller)
}

func getLock(tx *store.Tx, key string) (store.Entry[lockRecord], error) {
	return store.Get[lockRecord](tx, recordOf(key))
}

// getLocks reads the locks on the keys, in one round trip.
func getLocks(tx *store.Tx, keys []string) (locks []store.Entry[lockRecord], err error) {
	if err := tx.Want(lockKeys(keys)...); err != nil {
		return nil, err
	}
	for _, key := range keys {
		lk, err := getLock(tx, key)
		if err != nil {
			return nil, err
		}
		locks = append(locks, lk)
	}
	return locks, nil
}

func getLease(tx *store.Tx, name string) (store.Entry[leaseRecord], error) {
	ls, err := store.Get[leaseRecord](tx, leaseKind+name)
	if err != nil {
		return ls, err
	}
	return peekUsers(tx, ls)
}

func getQueue(tx *store.Tx, key string) (store.Entry[queueRecord], error) {
	return store.Get[queueRecord](tx, queueKind+key)
}

// putLease writes a lease as a heartbeat. held is how long it has been
// held already; max hold shortens the ttl towards its end.
func putLease(tx *store.Tx, name string, l leaseRecord, held time.Duration) error {
	ttl := l.window(held)
	l.TTL = ttl.Seconds()
	l.RenewedAt = tx.Now().UTC()
	return tx.PutTTL(leaseKind+name, l, l.stays())
}

// stays is how long a driver must keep the record; 0: until it is deleted.
func (l leaseRecord) stays() time.Duration {
	if l.endless() {
		return 0
	}
	return l.ttl()
}
