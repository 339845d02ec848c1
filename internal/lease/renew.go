package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// RenewRequest is a sign of life for keys, one lease, or all leases of an
// owner: exactly one of Keys, Lease and All. Lease beside Keys is a condition:
// only if that lease holds them.
type RenewRequest struct {
	Owner  string
	Keys   []string
	Lease  string // full name, or the id of a lease of Owner
	All    bool
	Token  int64 // with one key: only if the lock is at this token
	Latest int64 // with keys: only if none was granted later than this token
	DryRun bool

	// Worktree and Reason, if set, replace what the lease says.
	Worktree, Reason *string

	// Known to an attached holder:
	names  []string         // all leases that it took or uses
	tokens map[string]int64 // every one must still be in force
	own    string           // the lease it took, if any,
	record leaseRecord      // and what to write if its record is gone

	process *host.Process // if set: whose death ends the lease from now on
}

// RenewResult lists the leases that were renewed.
type RenewResult struct {
	Leases []Renewed `json:"leases"`
}

// Renewed is one lease with its new end.
type Renewed struct {
	LeaseID   string   `json:"leaseId"`
	Owner     string   `json:"owner"`
	Keys      []string `json:"keys"`
	Token     int64    `json:"token"`
	ExpiresAt Expiry   `json:"expiresAt"`

	window time.Duration // from now to ExpiresAt
}

// Renew moves the end of leases that the owner, a parent or a child of it holds. A
// lease past its ttl may still be renewed while nobody else has taken over;
// after that, or if it was never held, the error is [ErrLost].
func Renew(ctx context.Context, st *store.Store, r RenewRequest) (RenewResult, error) {
	if err := r.check(); err != nil {
		return RenewResult{}, err
	}
	var out RenewResult
	err := someKeys(r.Keys, func(keys []string) error {
		r := r
		r.Keys = keys
		some, err := r.run(ctx, st)
		out.add(some)
		return err
	})
	if err != nil {
		return RenewResult{}, err
	}
	return out, nil
}

// run renews what is meant in one commit, or if that is more than one can guard
// (all leases of an owner), in several.
func (r *RenewRequest) run(ctx context.Context, st *store.Store) (RenewResult, error) {
	var out RenewResult
	for done := map[string]bool{}; ; {
		some, more, err := r.once(ctx, st, done)
		if err != nil {
			return RenewResult{}, err
		}
		if out.add(some); !more {
			return out, nil
		}
		for _, l := range some.Leases {
			done[l.LeaseID] = true
		}
	}
}

// once renews the leases that are not done yet, as many as one commit can guard.
func (r *RenewRequest) once(ctx context.Context, st *store.Store, done map[string]bool) (out RenewResult, more bool, err error) {
	given := r.Keys
	defer func() { r.Keys = given }()
	_, err = update(ctx, st, r.DryRun, r.need(), func(tx *store.Tx) (err error) {
		out, more = RenewResult{}, false
		if r.Keys, err = meant(tx, given); err != nil {
			return err
		}
		for key, token := range r.tokens {
			if err := Fence(tx, key, token); err != nil && !fault.Bug("renew_unchecked") {
				return err
			}
		}
		names, err := r.leases(tx)
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return done[name] })
		if err := wantLeases(tx, names); err != nil {
			return err
		}
		for i, name := range names {
			ls, err := peekLease(tx, name)
			if err != nil {
				return err
			}
			if more = i > 0 && tx.Room() < cost(ls.Value); more {
				return nil
			}
			if err := r.renew(tx, name, &out); err != nil {
				return err
			}
		}
		return nil
	})
	return out, more, err
}

// add joins what several commits did: a lease may have had a part in each.
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

func (r *RenewRequest) check() (err error) {
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
	if !r.All && (r.Lease == "" || len(r.Keys) > 0) && r.names == nil {
		if r.Keys, err = namedKeys(r.Keys); err != nil {
			return err
		}
	}
	if r.Token != 0 && len(r.Keys) != 1 {
		return &InvalidError{What: "token", Rule: "goes with exactly one key"}
	}
	return nil
}

func (r *RenewRequest) need() driver.Query {
	switch {
	case r.All:
		return driver.Query{Ranges: []driver.Range{{Prefix: leaseKind + r.Owner + "/"}}}
	case r.Lease != "" && len(r.Keys) == 0:
		return driver.Query{Keys: []string{leaseKind + r.Lease}}
	}
	keys := append(needMeant(r.Keys), leaseKeys(r.names)...)
	for k := range r.tokens {
		keys = append(keys, recordOf(k))
	}
	return driver.Query{Keys: keys}
}

// leases finds out which leases are meant.
func (r *RenewRequest) leases(tx *store.Tx) ([]string, error) {
	var names []string
	switch {
	case r.All:
		recs, err := tx.Scan(leaseKind+r.Owner+"/", 0)
		if err != nil {
			return nil, err
		}
		for _, rec := range recs {
			l, err := store.Decode[leaseRecord](tx, rec)
			if err != nil {
				return nil, err
			}
			if len(l.Value.Keys) > 0 {
				names = append(names, rec.Key[len(leaseKind):])
			}
		}
		return names, nil
	case r.Lease != "" && len(r.Keys) == 0:
		return []string{r.Lease}, nil
	case r.names != nil:
		return r.names, nil
	}
	seen := map[string]bool{}
	if err := tx.Want(lockKeys(r.Keys)...); err != nil {
		return nil, err
	}
	for _, key := range r.Keys {
		lk, err := getLock(tx, key)
		if err != nil {
			return nil, err
		}
		switch {
		case r.Token == 0 && r.Latest == 0 && r.Lease == "":
			if !lk.Exists() || !Related(lk.Value.Owner, r.Owner) {
				return nil, NotHeld(tx, key, r.Owner)
			}
		case fenced(lk, key, r.Token, r.Latest, r.Lease) != nil:
			return nil, fenced(lk, key, r.Token, r.Latest, r.Lease)
		case !Related(lk.Value.Owner, r.Owner):
			return nil, &LostError{Key: key, Token: r.Token, Owner: lk.Value.Owner, Now: lk.Rev}
		}
		if !seen[lk.Value.Lease] {
			seen[lk.Value.Lease] = true
			names = append(names, lk.Value.Lease)
		}
	}
	return names, nil
}

// renew rewrites one lease, if every lock of it is still its own.
func (r *RenewRequest) renew(tx *store.Tx, name string, out *RenewResult) error {
	owner := leaseOwner(name)
	if !Related(owner, r.Owner) {
		return &OwnerError{Key: "lease " + name, Owner: owner, Caller: r.Owner}
	}
	ls, err := getLease(tx, name)
	if err != nil {
		return err
	}
	l, err := r.current(tx, ls)
	if err != nil {
		return err
	}
	if err := tx.Want(lockKeys(l.Keys)...); err != nil {
		return err
	}
	var token int64
	for _, key := range l.Keys {
		lk, err := lockOf(tx, ls, key)
		if err != nil {
			return err
		}
		if lk.Value.Lease != name {
			if fault.Bug("renew_unchecked") {
				if err := tx.Put(lk.Key, lockRecord{Key: key, Lease: name, Owner: owner, Since: l.Since}); err != nil {
					return err
				}
				continue
			}
			return &LostError{Key: key, Owner: lk.Value.Owner, Now: lk.Rev}
		}
		if fault.Bug("mod_revision_token") { // a heartbeat moves what is the token
			if err := tx.Put(lk.Key, lk.Value); err != nil {
				return err
			}
		}
		token = max(token, lk.Rev)
	}
	if r.Worktree != nil {
		l.Worktree = *r.Worktree
	}
	if r.Reason != nil {
		l.Reason = *r.Reason
	}
	if r.process != nil {
		l.Process = *r.process
	}
	window, err := touch(tx, name, l)
	var lost *LostError
	if errors.As(err, &lost) && lost.MaxHold > 0 {
		lost.Token, lost.Owner, lost.Now = token, owner, token
	}
	if err != nil {
		return err
	}
	out.Leases = append(out.Leases, Renewed{
		LeaseID: name, Owner: owner, Keys: l.Keys, Token: token,
		ExpiresAt: endsAfter(tx.Now(), window), window: window,
	})
	return nil
}

// current is the lease as stored, or as its holder remembers it. The record of a
// lease that is over stays behind when the store is moved. What nobody remembers
// cannot be renewed.
func (r *RenewRequest) current(tx *store.Tx, ls store.Entry[leaseRecord]) (leaseRecord, error) {
	switch {
	case ls.Value.holds():
		return ls.Value, nil
	case r.own != "" && ls.Key == leaseKind+r.own:
		l := r.record
		var err error
		l.UsedBy, err = users(tx, ls)
		l.Direct = l.UsedBy
		return l, err
	}
	return leaseRecord{}, noLease(tx, ls.Key[len(leaseKind):], r.Owner)
}
