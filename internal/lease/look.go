package lease

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// Info is a lock as others see it.
type Info struct {
	Key         string    `json:"key"`
	Owner       string    `json:"owner"`
	LeaseID     string    `json:"leaseId"`
	Token       int64     `json:"token"`
	AcquiredAt  time.Time `json:"acquiredAt"`
	HeartbeatAt time.Time `json:"heartbeatAt"` // last heartbeat
	ExpiresAt   Expiry    `json:"expiresAt"`
	State       State     `json:"state"`
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	Life        string    `json:"life"` // of that process: alive, dead or unknown
	Worktree    string    `json:"worktree"`
	Session     string    `json:"session"`
	Label       string    `json:"label,omitempty"` // the person or agent behind the owner
	Reason      string    `json:"reason"`
	Waiters     int       `json:"waiters"`
	PutsBack    string    `json:"-"` // see [PutBack]
}

// InForce reports whether there is a lock, and it keeps others out.
func (i *Info) InForce() bool { return i != nil && i.State == Held }

func newInfo(lk store.Entry[lockRecord], ls store.Entry[leaseRecord], q queueRecord) Info {
	l := ls.Value
	i := Info{
		Key: lk.Value.Key, Owner: lk.Value.Owner, LeaseID: lk.Value.Lease, Token: lk.Rev,
		AcquiredAt: lk.Value.Since, HeartbeatAt: ls.Time.UTC(), ExpiresAt: endsAfter(ls.Time, l.ttl()),
		State: stateOf(ls), Host: l.Host, PID: l.PID, Life: l.life().String(), Worktree: l.Worktree, Session: l.Session, Label: l.Label, Reason: l.Reason,
		Waiters: q.live(), PutsBack: l.PutsBack[lk.Value.Key],
	}
	if !ls.Exists() { // it was over and stayed behind in a move
		i.HeartbeatAt, i.ExpiresAt = i.AcquiredAt, Expiry{i.AcquiredAt}
	}
	return i
}

// CheckRequest asks about one key.
type CheckRequest struct {
	Key    string
	Token  int64  // if set: is this the token in force?
	Latest int64  // if set: was the key granted to nobody later than this token?
	Lease  string // if set: does this lease hold the key? Its full name, or the id of a lease of Owner
	Owner  string // with Lease
	HeldBy string // if set: does this owner, a parent of it, or a server of theirs hold the key?
}

// CheckResult: Locked means that others are kept out. The lock on a path may be
// that of an overlapping path.
type CheckResult struct {
	Key    string `json:"key"`
	Locked bool   `json:"locked"`
	Lock   *Info  `json:"lock"`

	Pool *PoolInfo `json:"pool,omitempty"` // if the key is one: Locked means that no slot is free
}

// Check reports whether a key is held. With Token, Latest, Lease or HeldBy, a key
// that is not held so is [ErrLost]. A token stays in force until a later grant,
// even past its ttl; HeldBy is true only while others are kept out.
func Check(ctx context.Context, st *store.Store, r CheckRequest) (CheckResult, error) {
	key, err := CheckKey(r.Key)
	if err != nil {
		return CheckResult{}, err
	}
	if r.HeldBy != "" {
		if err := CheckOwner(r.HeldBy); err != nil {
			return CheckResult{}, err
		}
	}
	if r.Lease != "" {
		r.Lease = fullName(r.Owner, r.Lease)
	}
	out := CheckResult{Key: key}
	err = st.View(ctx, driver.Query{Keys: append(needMeant([]string{key}), queueKind+key)}, func(tx *store.Tx) error {
		key, err := meantBy(tx, key)
		if err != nil {
			return err
		}
		out = CheckResult{Key: key}
		if isPool(key) {
			return r.checkPool(tx, &out)
		}
		info, err := Look(tx, key)
		if err == nil && !info.InForce() && !r.fences() {
			info, err = lookAround(tx, key, r.HeldBy, info)
		}
		if err != nil {
			return err
		}
		out.Lock, out.Locked = info, info.InForce()
		if r.fences() || r.HeldBy != "" { // a caller acts on the answer
			tx.Affirm()
		}
		return r.heldAsAsked(tx, key, info)
	})
	return out, err
}

// checkPool is Check for a pool. The lock in the result is a slot that is held as
// the request says.
func (r CheckRequest) checkPool(tx *store.Tx, out *CheckResult) error {
	p, err := PeekPool(tx, out.Key)
	if err != nil {
		return err
	}
	out.Pool, out.Locked = &p, p.Full()
	if !r.fences() && r.HeldBy == "" {
		return nil
	}
	tx.Affirm()
	for _, slot := range slotKeys(out.Key) {
		lk, err := getLock(tx, slot)
		if err != nil {
			return err
		}
		info, err := Look(tx, slot)
		if err != nil {
			return err
		}
		if r.fences() && fenced(lk, slot, r.Token, r.Latest, r.Lease) == nil || !r.fences() && info.InForce() && holdsFor(info.Owner, r.HeldBy) {
			out.Lock = info
			return nil
		}
	}
	if r.fences() {
		return &LostError{Key: out.Key, Token: max(r.Token, r.Latest)}
	}
	return NotHeld(tx, out.Key, r.HeldBy)
}

func (r CheckRequest) fences() bool { return r.Token != 0 || r.Latest != 0 || r.Lease != "" }

// heldAsAsked refuses a key that is not held as the request says.
func (r CheckRequest) heldAsAsked(tx *store.Tx, key string, info *Info) error {
	switch {
	case r.fences():
		lk, err := getLock(tx, key)
		if err != nil {
			return err
		}
		return fenced(lk, key, r.Token, r.Latest, r.Lease)
	case r.HeldBy == "" || info.InForce() && holdsFor(info.Owner, r.HeldBy):
		return nil
	case info == nil:
		return NotHeld(tx, key, r.HeldBy)
	case holdsFor(info.Owner, r.HeldBy):
		return &LostError{Key: key, Why: string(info.State) + ", and not renewed since"}
	case info.Key != key: // a path that overlaps it
		return &LostError{Key: key, Owner: info.Owner, Now: info.Token, Never: r.HeldBy}
	}
	return NotHeld(tx, key, r.HeldBy)
}

// Look returns the lock on a key, or nil, and guards it.
func Look(tx *store.Tx, key string) (*Info, error) {
	return infoBy(tx, key, getLock, getLease, getQueue)
}

// Peek is [Look] without guards, see [store.Peek].
func Peek(tx *store.Tx, key string) (*Info, error) {
	peekQueue := func(tx *store.Tx, key string) (store.Entry[queueRecord], error) {
		return store.Peek[queueRecord](tx, queueKind+key)
	}
	return infoBy(tx, key, peekLock, peekLease, peekQueue)
}

// reading reads a record by its name.
type reading[T any] func(tx *store.Tx, name string) (store.Entry[T], error)

func infoBy(tx *store.Tx, key string, lockOf reading[lockRecord], leaseOf reading[leaseRecord], queueAt reading[queueRecord]) (*Info, error) {
	lk, err := lockOf(tx, key)
	if err != nil || !lk.Exists() {
		return nil, err
	}
	ls, err := leaseOf(tx, lk.Value.Lease)
	if err != nil {
		return nil, err
	}
	q, err := queueAt(tx, queueOf(key))
	if err != nil {
		return nil, err
	}
	i := newInfo(lk, ls, q.Value)
	return &i, nil
}

// ShowResult is everything about one key.
type ShowResult struct {
	Key     string    `json:"key"`
	Lock    *Info     `json:"lock"`
	Pool    *PoolInfo `json:"pool,omitempty"`  // if the key is one
	Users   []User    `json:"users,omitempty"` // who works under the lock, besides its holder
	Waiters []Waiter  `json:"waiters"`
}

// User is a lease that relies on the lock.
type User Waiter

// Waiter is one place in a queue.
type Waiter struct {
	Owner    string    `json:"owner"`
	LeaseID  string    `json:"leaseId"`
	Since    time.Time `json:"since"`
	LastSeen time.Time `json:"lastSeen"`
	State    State     `json:"state"`
	Host     string    `json:"host,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Take     int       `json:"take,omitempty"` // of a pool: how many slots; -1: all
}

// Show returns the lock on a key and who waits for it, or [ErrNotFound].
func Show(ctx context.Context, st *store.Store, key string) (ShowResult, error) {
	key, err := CheckKey(key)
	if err != nil {
		return ShowResult{}, err
	}
	out := ShowResult{Key: key}
	err = st.View(ctx, driver.Query{Keys: append(needMeant([]string{key}), queueKind+key)}, func(tx *store.Tx) error {
		key, err := meantBy(tx, key)
		if err != nil {
			return err
		}
		out = ShowResult{Key: key, Waiters: []Waiter{}}
		if isPool(key) {
			p, err := PeekPool(tx, key)
			if err != nil {
				return err
			}
			if out.Pool = &p; p.Size > 0 {
				out.Waiters, err = waitersFor(tx, key)
				return err
			}
		}
		if out.Lock, err = Look(tx, key); err != nil {
			return err
		}
		if out.Waiters, err = waitersFor(tx, key); err != nil {
			return err
		}
		if out.Lock == nil && len(out.Waiters) == 0 {
			return ErrNotFound
		}
		out.Users, err = showUsers(tx, key)
		return err
	})
	return out, err
}

// OthersWait reports whether an owner other than this one waits for the key, and lives.
func OthersWait(tx *store.Tx, key, owner string) (bool, error) {
	list, err := waitersFor(tx, key)
	return slices.ContainsFunc(list, func(w Waiter) bool { return w.State == Held && w.Owner != owner }), err
}

// waitersFor returns who waits for a key, or for a slot of a pool.
func waitersFor(tx *store.Tx, key string) ([]Waiter, error) {
	out := []Waiter{}
	q, err := getQueue(tx, queueOf(key))
	if err != nil {
		return out, err
	}
	tickets, err := readLeases(tx, q.Value.Tickets, getLease)
	for i, t := range tickets {
		w := newWaiter(q.Value.Tickets[i], t)
		if isPool(queueOf(key)) {
			w.Take = t.Value.Takes.of(queueOf(key))
		}
		out = append(out, w)
	}
	return out, err
}

func newWaiter(name string, ls store.Entry[leaseRecord]) Waiter {
	l := ls.Value
	return Waiter{Owner: leaseOwner(name), LeaseID: name, Since: l.Since, LastSeen: ls.Time.UTC(), State: stateOf(ls), Host: l.Host, PID: l.PID}
}

func showUsers(tx *store.Tx, key string) (out []User, err error) {
	lk, err := getLock(tx, key)
	if err != nil || !lk.Exists() {
		return nil, err
	}
	leases, err := workingUnder(tx, lk, true, "", "")
	for _, ls := range leases {
		out = append(out, User(newWaiter(leaseName(ls.Key), ls)))
	}
	return out, err
}

// Everything is all records about locks: what [List] and [Locks] read.
var Everything = driver.Query{Ranges: []driver.Range{{Prefix: lockKind}, {Prefix: pathKind}, {Prefix: leaseKind}, {Prefix: queueKind}}}

// eachLock visits all locks with their leases and queues, guarding none.
func eachLock(tx *store.Tx, visit func(store.Entry[lockRecord], store.Entry[leaseRecord], queueRecord) error) error {
	leases, err := scan[leaseRecord](tx, leaseKind)
	if err != nil {
		return err
	}
	queues, err := scan[queueRecord](tx, queueKind)
	if err != nil {
		return err
	}
	locks, err := tx.Scan(lockKind, 0)
	if err != nil {
		return err
	}
	paths, err := tx.Scan(pathKind, 0)
	if err != nil {
		return err
	}
	for _, rec := range slices.Concat(locks, paths) {
		lk, err := store.Decode[lockRecord](tx, rec)
		if err != nil {
			return err
		}
		ls, _ := keptBy(leases[lk.Value.Lease], func(name string) (store.Entry[leaseRecord], error) { return leases[name], nil })
		ls.Key = leaseKind + lk.Value.Lease
		if err := visit(lk, ls, queues[queueOf(lk.Value.Key)].Value); err != nil {
			return err
		}
	}
	return nil
}

// scan decodes all records of a kind, by name.
func scan[T any](tx *store.Tx, kind string) (map[string]store.Entry[T], error) {
	all, err := store.All[T](tx, kind)
	out := make(map[string]store.Entry[T], len(all))
	for _, e := range all {
		out[strings.TrimPrefix(e.Key, kind)] = e
	}
	return out, err
}
