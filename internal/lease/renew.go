package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// RenewRequest is a heartbeat for keys, one lease, or all leases of an owner:
// exactly one of Keys, Lease and All. Lease with Keys is a condition: only if that
// lease holds them.
type RenewRequest struct {
	Owner  string
	Keys   []string
	Lease  string // full name, or the id of a lease of Owner
	All    bool
	Token  int64 // with one key: only if the lock is at this token; with Lease alone: only if that is its largest
	Latest int64 // with keys: only if none was granted later than this token
	DryRun bool

	// Worktree and Reason, if set, replace what the lease says.
	Worktree, Reason *string
}

// RenewResult lists the leases that were renewed.
type RenewResult struct {
	Leases []Renewed `json:"leases"`
}

// Renewed is one lease with its new expiry.
type Renewed struct {
	LeaseID   string   `json:"leaseId"`
	Owner     string   `json:"owner"`
	Keys      []string `json:"keys"`
	Token     int64    `json:"token"`
	ExpiresAt Expiry   `json:"expiresAt"`

	window time.Duration // from now to ExpiresAt
}

// Renew renews leases that the owner, a parent or a child of it holds. An expired
// lease may still be renewed while nobody else has taken over; after that, or if
// it was never held, the error is [ErrLost].
func Renew(ctx context.Context, st *store.Store, r RenewRequest) (RenewResult, error) {
	return (&renewal{RenewRequest: r}).run(ctx, st)
}

// renewal is the run of a [RenewRequest].
type renewal struct {
	RenewRequest
	held *holding // whose heartbeat it is; nil: a call by hand
}

// holding is what an attached holder knows of its leases.
type holding struct {
	names  []string         // all leases that it took or uses
	tokens map[string]int64 // of its keys: every one must still be in force
	own    string           // the lease it took; empty: it only uses a parent's
	record leaseRecord      // what to write if the record of own is gone
}

// run renews keys in several commits if they are more than one can guard.
func (r *renewal) run(ctx context.Context, st *store.Store) (out RenewResult, err error) {
	if err := r.check(); err != nil {
		return RenewResult{}, err
	}
	err = someKeys(r.Keys, func(keys []string) error { return r.some(ctx, st, keys, &out) })
	if err != nil {
		return RenewResult{}, err
	}
	return out, nil
}

// some renews in one commit or, if that is more than one can guard (all leases of
// an owner), in several.
func (r *renewal) some(ctx context.Context, st *store.Store, keys []string, out *RenewResult) error {
	for done := map[string]bool{}; ; {
		some, more, err := r.once(ctx, st, keys, done)
		if err != nil {
			return err
		}
		if out.add(some); !more {
			return nil
		}
		for _, l := range some.Leases {
			done[l.LeaseID] = true
		}
	}
}

// once renews the leases that are not done yet, as many as one commit can guard.
func (r *renewal) once(ctx context.Context, st *store.Store, names []string, done map[string]bool) (out RenewResult, more bool, err error) {
	_, err = UpdateOrLook(ctx, st, r.DryRun, r.need(names), func(tx *store.Tx) error {
		out, more = RenewResult{}, false
		keys, err := meant(tx, names)
		if err != nil {
			return err
		}
		if keys, err = slotsOf(tx, keys, r.meansSlot); err != nil {
			return err
		}
		if err := r.held.fence(tx); err != nil {
			return err
		}
		leases, err := r.leases(tx, keys)
		if err != nil {
			return err
		}
		leases = slices.DeleteFunc(slices.Clone(leases), func(name string) bool { return done[name] })
		if err := wantLeases(tx, leases); err != nil {
			return err
		}
		for i, name := range leases {
			ls, err := peekLease(tx, name)
			if err != nil {
				return err
			}
			if more = i > 0 && tx.Room() < cost(ls.Value); more {
				return nil
			}
			if r.byLease() && r.Token != 0 {
				if done, err := atToken(tx, ls, r.Token); err != nil || done {
					return cmp.Or(err, noLease(tx, name, r.Owner))
				}
			}
			l, err := r.heartbeat().renew(tx, name)
			if err != nil {
				return err
			}
			out.Leases = append(out.Leases, l)
		}
		return nil
	})
	return out, more, err
}

// fence makes the transaction depend on every lock of a holder.
func (h *holding) fence(tx *store.Tx) error {
	if h == nil {
		return nil
	}
	for key, token := range h.tokens {
		if err := Fence(tx, key, token); err != nil {
			return err
		}
	}
	return nil
}

// add joins the results of several commits: a lease may have had a part in each.
func (out *RenewResult) add(more RenewResult) {
	for _, l := range more.Leases {
		same := func(r Renewed) bool { return r.LeaseID == l.LeaseID }
		if i := slices.IndexFunc(out.Leases, same); i >= 0 {
			out.Leases[i] = l
		} else {
			out.Leases = append(out.Leases, l)
		}
	}
}

func (r *renewal) check() (err error) {
	for what, text := range map[string]*string{"worktree": r.Worktree, "reason": r.Reason} {
		if text != nil {
			if err := checkText(what, *text); err != nil {
				return err
			}
		}
	}
	if err := CheckOwner(r.Owner); err != nil {
		return err
	}
	if r.Lease != "" {
		r.Lease = fullName(r.Owner, r.Lease)
	}
	if !r.All && (r.Lease == "" || len(r.Keys) > 0) && r.held == nil {
		if r.Keys, err = namedKeys(r.Keys); err != nil {
			return err
		}
	}
	if r.byLease() {
		return nil
	}
	return checkToken(r.Token, r.Keys)
}

// byLease reports whether the name of a lease alone says which one is meant.
func (r *renewal) byLease() bool { return r.Lease != "" && len(r.Keys) == 0 && !r.All }

func (r *renewal) need(names []string) driver.Query {
	switch {
	case r.held != nil:
		keys := leaseKeys(r.held.names)
		for k := range r.held.tokens {
			keys = append(keys, recordOf(k))
		}
		return driver.Query{Keys: keys}
	case r.All:
		return driver.Query{Ranges: []driver.Range{{Prefix: leaseKind + r.Owner + "/"}}}
	case r.Lease != "" && len(names) == 0:
		return driver.Query{Keys: []string{leaseKind + r.Lease}}
	}
	return driver.Query{Keys: needMeant(names)}
}

// leases finds out which leases are meant.
func (r *renewal) leases(tx *store.Tx, keys []string) ([]string, error) {
	switch {
	case r.held != nil:
		return r.held.names, nil
	case r.All:
		return r.leasesOfOwner(tx)
	case r.Lease != "" && len(keys) == 0:
		return []string{r.Lease}, nil
	}
	locks, err := getLocks(tx, keys)
	if err != nil {
		return nil, err
	}
	var names []string
	for i, lk := range locks {
		if err := r.may(tx, keys[i], lk); err != nil {
			return nil, err
		}
		if !slices.Contains(names, lk.Value.Lease) {
			names = append(names, lk.Value.Lease)
		}
	}
	return names, nil
}

// leasesOfOwner returns the leases with keys of the owner and its children.
func (r *renewal) leasesOfOwner(tx *store.Tx) (names []string, err error) {
	leases, err := store.All[leaseRecord](tx, leaseKind+r.Owner+"/")
	for _, l := range leases {
		if len(l.Value.Keys) > 0 {
			names = append(names, leaseName(l.Key))
		}
	}
	return names, err
}

// meansSlot reports whether a slot is meant by the name of its pool.
func (r *renewal) meansSlot(lk store.Entry[lockRecord]) bool {
	return Related(lk.Value.Owner, r.Owner) && fenced(lk, lk.Value.Key, r.Token, r.Latest, r.Lease) == nil
}

// may says whether the caller may renew that lock.
func (r *renewal) may(tx *store.Tx, key string, lk store.Entry[lockRecord]) error {
	if r.Token == 0 && r.Latest == 0 && r.Lease == "" {
		if !lk.Exists() || !Related(lk.Value.Owner, r.Owner) {
			return NotHeld(tx, key, r.Owner)
		}
		return nil
	}
	if err := fenced(lk, key, r.Token, r.Latest, r.Lease); err != nil {
		return err
	}
	if !Related(lk.Value.Owner, r.Owner) {
		return &LostError{Key: key, Token: r.Token, Owner: lk.Value.Owner, Now: lk.Rev}
	}
	return nil
}

func (r *renewal) heartbeat() heartbeat {
	return heartbeat{by: r.Owner, worktree: r.Worktree, reason: r.Reason, held: r.held}
}

// A heartbeat renews one lease.
type heartbeat struct {
	by               string // the owner, a parent or a child of it
	worktree, reason *string
	process          *host.Process // if set: whose death ends the lease from now on
	held             *holding      // if set: what its holder remembers
}

// renew rewrites one lease, if every lock of it is still its own.
func (h heartbeat) renew(tx *store.Tx, name string) (Renewed, error) {
	owner := leaseOwner(name)
	if !Related(owner, h.by) {
		return Renewed{}, &OwnerError{Key: "lease " + name, Owner: owner, Caller: h.by}
	}
	ls, err := getLease(tx, name)
	if err != nil {
		return Renewed{}, err
	}
	l, err := h.current(tx, ls)
	if err != nil {
		return Renewed{}, err
	}
	token, err := ownLocks(tx, ls, l)
	if err != nil {
		return Renewed{}, err
	}
	if h.worktree != nil {
		l.Worktree = *h.worktree
	}
	if h.reason != nil {
		l.Reason = *h.reason
	}
	if h.process != nil {
		l.Process = *h.process
	}
	window, err := touch(tx, name, l)
	var lost *LostError
	if errors.As(err, &lost) && lost.MaxHold > 0 {
		lost.Token, lost.Owner, lost.Now = token, owner, token
	}
	return Renewed{
		LeaseID: name, Owner: owner, Keys: l.Keys, Token: token,
		ExpiresAt: endsAfter(tx.Now(), window), window: window,
	}, err
}

// ownLocks makes sure that every lock of a lease is still its own, and returns
// the largest token.
func ownLocks(tx *store.Tx, ls store.Entry[leaseRecord], l leaseRecord) (token int64, err error) {
	if err := tx.Want(lockKeys(l.Keys)...); err != nil {
		return 0, err
	}
	name := leaseName(ls.Key)
	for _, key := range l.Keys {
		lk, err := lockOf(tx, ls, key)
		if err != nil {
			return 0, err
		}
		if lk.Value.Lease != name {
			return 0, &LostError{Key: key, Owner: lk.Value.Owner, Now: lk.Rev}
		}
		token = max(token, lk.Rev)
	}
	return token, nil
}

// current is the lease as stored, or as its holder remembers it: the record of an
// expired lease stays behind when the store moves. A lease that nobody remembers
// cannot be renewed.
func (h heartbeat) current(tx *store.Tx, ls store.Entry[leaseRecord]) (leaseRecord, error) {
	switch {
	case ls.Value.holds():
		return ls.Value, nil
	case h.held != nil && h.held.own != "" && ls.Key == leaseKind+h.held.own:
		l := h.held.record
		var err error
		l.UsedBy, err = users(tx, ls)
		l.Direct = l.UsedBy
		return l, err
	}
	return leaseRecord{}, noLease(tx, leaseName(ls.Key), h.by)
}
