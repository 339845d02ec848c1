package lock

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
	HeartbeatAt time.Time `json:"heartbeatAt"` // last sign of life
	ExpiresAt   time.Time `json:"expiresAt"`
	State       State     `json:"state"`
	Host        string    `json:"host,omitempty"`
	PID         int       `json:"pid,omitempty"`
	Worktree    string    `json:"worktree,omitempty"`
	Session     string    `json:"session,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Waiters     int       `json:"waiters"`
}

func newInfo(lk store.Entry[lockRecord], ls store.Entry[leaseRecord], q queueRecord) Info {
	l := ls.Value
	i := Info{
		Key: lk.Value.Key, Owner: lk.Value.Owner, LeaseID: lk.Value.Lease, Token: lk.Rev,
		AcquiredAt: lk.Value.Since, HeartbeatAt: ls.Time.UTC(), ExpiresAt: ls.Time.Add(l.ttl()).UTC(),
		State: stateOf(ls), Host: l.Host, PID: l.PID, Worktree: l.Worktree, Session: l.Session, Reason: l.Reason,
		Waiters: len(q.Tickets) - lapsedBefore(q, len(q.Tickets)),
	}
	if !ls.Exists() { // the store dropped the lease record when it expired
		i.HeartbeatAt, i.ExpiresAt = i.AcquiredAt, i.AcquiredAt
	}
	return i
}

// CheckRequest asks about one key.
type CheckRequest struct {
	Key   string
	Token int64  // if set: is this the token in force?
	Mine  string // if set: does this owner, or a parent of it, hold the key?
}

// CheckResult: Locked means that others are kept out.
type CheckResult struct {
	Key    string `json:"key"`
	Locked bool   `json:"locked"`
	Lock   *Info  `json:"lock"`
}

// Check tells whether a key is held. With Token or Mine, a key that is not
// held so is [ErrLost]; a token stays in force until a later grant, also past
// its ttl.
func Check(ctx context.Context, st *store.Store, r CheckRequest) (CheckResult, error) {
	key, err := CheckKey(r.Key)
	if err != nil {
		return CheckResult{}, err
	}
	if r.Mine != "" {
		if err := CheckOwner(r.Mine); err != nil {
			return CheckResult{}, err
		}
	}
	out := CheckResult{Key: key}
	err = st.View(ctx, driver.Query{Keys: []string{lockKind + key, queueKind + key}}, func(tx *store.Tx) error {
		out = CheckResult{Key: key}
		info, err := look(tx, key)
		if err != nil {
			return err
		}
		if out.Lock = info; info != nil {
			out.Locked = info.State == Held
		}
		switch {
		case r.Token != 0:
			return Fence(tx, key, r.Token)
		case r.Mine != "" && (info == nil || !usable(info.Owner, r.Mine)):
			lost := &LostError{Key: key}
			if info != nil {
				lost.Owner, lost.Now = info.Owner, info.Token
			}
			return lost
		}
		return nil
	})
	return out, err
}

// look returns the lock on a key, or nil.
func look(tx *store.Tx, key string) (*Info, error) {
	lk, err := getLock(tx, key)
	if err != nil || !lk.Exists() {
		return nil, err
	}
	ls, err := getLease(tx, lk.Value.Lease)
	if err != nil {
		return nil, err
	}
	q, err := getQueue(tx, key)
	if err != nil {
		return nil, err
	}
	i := newInfo(lk, ls, q.Value)
	return &i, nil
}

// ShowResult is everything about one key.
type ShowResult struct {
	Key     string   `json:"key"`
	Lock    *Info    `json:"lock"`
	Waiters []Waiter `json:"waiters"`
}

// Waiter is one place in a queue.
type Waiter struct {
	Owner    string    `json:"owner"`
	LeaseID  string    `json:"leaseId"`
	Since    time.Time `json:"since"`
	LastSeen time.Time `json:"lastSeen"`
	State    State     `json:"state"`
	Host     string    `json:"host,omitempty"`
	PID      int       `json:"pid,omitempty"`
}

// Show returns the lock on a key and who waits for it, or [ErrNotFound].
func Show(ctx context.Context, st *store.Store, key string) (ShowResult, error) {
	key, err := CheckKey(key)
	if err != nil {
		return ShowResult{}, err
	}
	out := ShowResult{Key: key}
	err = st.View(ctx, driver.Query{Keys: []string{lockKind + key, queueKind + key}}, func(tx *store.Tx) error {
		out = ShowResult{Key: key, Waiters: []Waiter{}}
		if out.Lock, err = look(tx, key); err != nil {
			return err
		}
		q, err := getQueue(tx, key)
		if err != nil {
			return err
		}
		if err := tx.Want(leaseKeys(q.Value.Tickets)...); err != nil {
			return err
		}
		for _, name := range q.Value.Tickets {
			t, err := getLease(tx, name)
			if err != nil {
				return err
			}
			out.Waiters = append(out.Waiters, Waiter{
				Owner: leaseOwner(name), LeaseID: name, Since: t.Value.Since, LastSeen: t.Time.UTC(),
				State: stateOf(t), Host: t.Value.Host, PID: t.Value.PID,
			})
		}
		if out.Lock == nil && len(out.Waiters) == 0 {
			return ErrNotFound
		}
		return nil
	})
	return out, err
}

// ListRequest selects locks.
type ListRequest struct {
	Owner string // of this owner and its children
	Kind  Kind   // of this kind
}

// ListResult holds locks in the order of their keys.
type ListResult struct {
	Locks []Info `json:"locks"`
}

// List returns the locks, expired ones too: their state says so.
func List(ctx context.Context, st *store.Store, r ListRequest) (ListResult, error) {
	out := ListResult{Locks: []Info{}}
	err := st.View(ctx, everything, func(tx *store.Tx) error {
		out.Locks = out.Locks[:0]
		return eachLock(tx, func(lk store.Entry[lockRecord], ls store.Entry[leaseRecord], q queueRecord) error {
			if kind, _ := KindOf(lk.Value.Key); (r.Kind == "" || r.Kind == kind) && (r.Owner == "" || descends(lk.Value.Owner, r.Owner)) {
				out.Locks = append(out.Locks, newInfo(lk, ls, q))
			}
			return nil
		})
	})
	return out, err
}

// everything about locks, read at one revision.
var everything = driver.Query{Ranges: []driver.Range{{Prefix: lockKind}, {Prefix: leaseKind}, {Prefix: queueKind}}}

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
	for _, rec := range locks {
		lk, err := store.Decode[lockRecord](tx, rec)
		if err != nil {
			return err
		}
		ls := leases[lk.Value.Lease]
		ls.Key = leaseKind + lk.Value.Lease
		if err := visit(lk, ls, queues[lk.Value.Key].Value); err != nil {
			return err
		}
	}
	return nil
}

// scan decodes all records of a kind, by name.
func scan[T any](tx *store.Tx, kind string) (map[string]store.Entry[T], error) {
	recs, err := tx.Scan(kind, 0)
	if err != nil {
		return nil, err
	}
	out := make(map[string]store.Entry[T], len(recs))
	for _, rec := range recs {
		e, err := store.Decode[T](tx, rec)
		if err != nil {
			return nil, err
		}
		out[strings.TrimPrefix(rec.Key, kind)] = e
	}
	return out, nil
}

// CleanupRequest frees what nobody can be working under.
type CleanupRequest struct {
	By     string        // who cleans up, for the audit
	Silent time.Duration // also break leases without a sign of life for so long; 0: only expired and dead ones
	DryRun bool
}

// CleanupResult tells what was freed.
type CleanupResult struct {
	Freed   []Info `json:"freed"`   // with the state for which they were freed
	Tickets int    `json:"tickets"` // waiters that never came back
	Pruned  int    `json:"pruned"`  // old records of history and requests
}

// Cleanup ends every lease that has expired or whose process is provably dead,
// drops abandoned tickets, and bounds the history. Each lease is ended by
// compare-and-swap: one that is renewed meanwhile stays.
func Cleanup(ctx context.Context, st *store.Store, r CleanupRequest) (CleanupResult, error) {
	out := CleanupResult{Freed: []Info{}}
	if r.Silent < 0 {
		return out, &InvalidError{What: "silence " + r.Silent.String(), Rule: "must not be negative"}
	}
	for {
		n, err := r.round(ctx, st, &out)
		if err != nil || n == 0 || r.DryRun {
			return out, err
		}
	}
}

// cleanupRound bounds what one commit of a cleanup touches.
const cleanupRound = 25

func (r *CleanupRequest) round(ctx context.Context, st *store.Store, out *CleanupResult) (n int, err error) {
	limit := cleanupRound
	if r.DryRun {
		limit = 1 << 30
	}
	var freed []Info
	var tickets, pruned int
	_, err = update(ctx, st, r.DryRun, everything, func(tx *store.Tx) error {
		freed, tickets, pruned = nil, 0, 0
		leases, err := scan[leaseRecord](tx, leaseKind)
		if err != nil {
			return err
		}
		ended := map[string]bool{}
		err = eachLock(tx, func(lk store.Entry[lockRecord], ls store.Entry[leaseRecord], q queueRecord) error {
			if name := lk.Value.Lease; r.over(ls) && (ended[name] || len(ended) < limit) {
				freed = append(freed, newInfo(lk, ls, q))
				if ended[name] {
					return nil
				}
				ended[name] = true
				return r.end(tx, lk.Value.Key, name)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for name, t := range leases {
			if len(t.Value.WaitsFor) > 0 && stateOf(t) != Held && t.Age > placeKept && tickets < limit {
				tickets++
				q := AcquireRequest{Owner: leaseOwner(name), ID: name[len(leaseOwner(name))+1:], Keys: t.Value.WaitsFor}
				if err := dropTicket(tx, name); err != nil {
					return err
				}
				if err := q.leaveQueues(tx); err != nil {
					return err
				}
			}
		}
		pruned, err = r.prune(tx)
		return err
	})
	if err != nil {
		return 0, err
	}
	out.Freed = append(out.Freed, freed...)
	out.Tickets += tickets
	out.Pruned += pruned
	return len(freed) + tickets + pruned, nil
}

// over says whether a lease is to be ended.
func (r *CleanupRequest) over(ls store.Entry[leaseRecord]) bool {
	return stateOf(ls) != Held || r.Silent > 0 && ls.Age > r.Silent
}

// end decides once more on the guarded records and ends the lease.
func (r *CleanupRequest) end(tx *store.Tx, key, name string) error {
	ls, err := getLease(tx, name)
	if err != nil || !r.over(ls) {
		return err
	}
	how := ending{event: "expired", by: r.By, why: string(stateOf(ls))}
	if stateOf(ls) == Held {
		how = ending{event: "broken", by: r.By, why: "silent for " + ls.Age.Round(time.Second).String()}
	}
	keys := ls.Value.Keys
	if !ls.Exists() {
		keys = []string{key}
	}
	return endKeys(tx, ls, keys, how)
}

// prune bounds the records that only look back.
func (r *CleanupRequest) prune(tx *store.Tx) (int, error) {
	events, err := tx.Scan(eventKind, 0)
	if err != nil {
		return 0, err
	}
	requests, err := tx.Scan(requestKind, 0)
	if err != nil {
		return 0, err
	}
	var old []string
	for _, rec := range events[:max(0, len(events)-keepEvents)] {
		old = append(old, rec.Key)
	}
	for _, rec := range requests {
		if tx.Now().Sub(rec.Time) > keepTokens {
			old = append(old, rec.Key)
		}
	}
	slices.Sort(old)
	old = old[:min(len(old), 500)]
	for _, key := range old {
		tx.Delete(key)
	}
	return len(old), nil
}
