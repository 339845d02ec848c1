package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// ReleaseRequest releases keys, one lease, or everything of an owner: exactly one
// of Keys, Lease and All. Lease with Keys is a condition: only if that lease holds
// them.
type ReleaseRequest struct {
	Owner   string
	Keys    []string
	Lease   string // full name, or the id of a lease of Owner
	All     bool   // of Owner and its children: the end of a session
	Session string // with All: only what this session of a harness acquired
	Token   int64  // with one key: only if the lock is at this token; with Lease alone: only if that is its largest
	Latest  int64  // with keys: only if none was granted later than this token
	Reason  string
	DryRun  bool
}

// release is the run of a [ReleaseRequest].
type release struct {
	ReleaseRequest

	// With Lease:
	process *host.Process // only if it ends with this process
	leave   bool          // leave what is in use to its users
	likely  []string      // its keys, if the caller knows them: read with it
	found   bool          // an attempt saw it: a lost reply may be that of its end
}

// ReleaseResult says what was released and what was already free.
type ReleaseResult struct {
	Released []Released `json:"released"`
	Free     []string   `json:"free,omitempty"`
	Never    []string   `json:"never,omitempty"` // keys that the caller never held, as far as history goes back
	Left     []string   `json:"left,omitempty"`  // released, but somebody works under them: free when that ends
}

func (out *ReleaseResult) add(more ReleaseResult) {
	out.Released, out.Free, out.Left = append(out.Released, more.Released...), append(out.Free, more.Free...), append(out.Left, more.Left...)
	out.Never = append(out.Never, more.Never...)
}

// Released is one key that was released.
type Released struct {
	Key   string `json:"key"`
	Owner string `json:"owner"`
	Token int64  `json:"token"`
}

// Release releases what the owner, or one of its children, holds: everything in
// the request, or nothing. A key that is already free is not an error. A key of
// another owner is an [*OwnerError]. An old token is [ErrLost], even if the later
// grant is over and the key is free. More keys than a lease can have take several
// commits, sections last.
func Release(ctx context.Context, st *store.Store, r ReleaseRequest) (ReleaseResult, error) {
	return (&release{ReleaseRequest: r}).run(ctx, st)
}

func (r *release) run(ctx context.Context, st *store.Store) (all ReleaseResult, err error) {
	if err := r.check(); err != nil {
		return ReleaseResult{}, err
	}
	if r.All {
		return r.all(ctx, st)
	}
	err = someKeys(r.Keys, func(names []string) error {
		var out ReleaseResult
		_, err := UpdateOrLook(ctx, st, r.DryRun, r.need(names), func(tx *store.Tx) error {
			out = ReleaseResult{}
			if len(names) == 0 {
				return r.lease(tx, r.Lease, &out)
			}
			keys, err := meant(tx, names)
			if err != nil {
				return err
			}
			for _, which := range []func(store.Entry[lockRecord]) bool{r.mine, r.above} {
				if keys, err = slotsOf(tx, keys, which); err != nil {
					return err
				}
			}
			return r.keys(tx, keys, &out)
		})
		all.add(out)
		return err
	})
	if err != nil {
		return ReleaseResult{}, err
	}
	return all, nil
}

func (r *release) check() (err error) {
	if r.Lease != "" {
		r.Lease = fullName(r.Owner, r.Lease)
	}
	if r.Lease != "" && len(r.Keys) == 0 && !r.All {
		return errors.Join(CheckOwner(r.Owner), checkText("reason", r.Reason))
	}
	if r.All {
		return cmp.Or(errors.Join(CheckOwner(r.Owner), checkText("reason", r.Reason)), checkToken(r.Token, r.Keys))
	}
	r.Keys, err = checkNamed(r.Keys, r.Owner, r.Reason, r.Token)
	return err
}

// checkNamed checks a request that ends the locks of named keys.
func checkNamed(keys []string, by, reason string, token int64) ([]string, error) {
	if err := errors.Join(CheckOwner(by), checkText("reason", reason)); err != nil {
		return nil, err
	}
	keys, err := namedKeys(keys)
	return keys, cmp.Or(err, checkToken(token, keys))
}

// checkToken says whether a token may go with the keys: each key has its own.
func checkToken(token int64, keys []string) error {
	if token != 0 && len(keys) != 1 {
		return &InvalidError{What: "token", Rule: "goes with exactly one key"}
	}
	return nil
}

// fullName completes the name of a lease with its owner.
func fullName(owner, lease string) string {
	if strings.Contains(lease, "/") {
		return lease
	}
	return owner + "/" + lease
}

func (r *release) need(names []string) driver.Query {
	if len(names) == 0 {
		return driver.Query{Keys: append([]string{leaseKind + r.Lease}, lockKeys(r.likely)...)}
	}
	keys := needMeant(names)
	if r.Lease != "" {
		keys = append(keys, leaseKind+r.Lease)
	}
	return driver.Query{Keys: keys}
}

func (r *release) keys(tx *store.Tx, keys []string, out *ReleaseResult) error {
	locks, err := getLocks(tx, keys)
	if err != nil {
		return err
	}
	byLease := map[string][]string{}
	var order []string
	for i, lk := range locks {
		key := keys[i]
		if !lk.Exists() {
			if err := fencedPast(tx, key, r.Token, r.Latest, r.Lease); err != nil {
				return err
			}
			out.Free = append(out.Free, key)
			if err := r.noteNever(tx, key, out); err != nil {
				return err
			}
			continue
		}
		if err := r.may(lk); err != nil {
			return err
		}
		name := lk.Value.Lease
		if byLease[name] == nil {
			order = append(order, name)
		}
		byLease[name] = append(byLease[name], key)
		out.Released = append(out.Released, Released{Key: key, Owner: lk.Value.Owner, Token: lk.Rev})
	}
	if err := wantLeases(tx, order); err != nil {
		return err
	}
	if order, err = innerFirst(tx, order); err != nil {
		return err
	}
	for _, name := range order {
		ls, err := getLease(tx, name)
		if err != nil {
			return err
		}
		if err := inUse(tx, ls, byLease[name]); err != nil {
			return err
		}
		if err := endKeys(tx, ls, byLease[name], r.how()); err != nil {
			return err
		}
	}
	return nil
}

// mine reports whether a slot is meant by the name of its pool: not one that a child
// of the owner holds.
func (r *release) mine(lk store.Entry[lockRecord]) bool {
	return lk.Value.Owner == r.Owner && fenced(lk, lk.Value.Key, r.Token, r.Latest, r.Lease) == nil
}

// above reports whether a parent holds a slot. If the owner itself holds none, the
// name of the pool means that one, which it may not release.
func (r *release) above(lk store.Entry[lockRecord]) bool { return MayUse(r.Owner, lk.Value.Owner) }

// may says whether the caller may release that lock.
func (r *release) may(lk store.Entry[lockRecord]) error {
	if err := fenced(lk, lk.Value.Key, r.Token, r.Latest, r.Lease); err != nil {
		return err
	}
	if !descends(lk.Value.Owner, r.Owner) {
		return &OwnerError{Key: lk.Value.Key, Owner: lk.Value.Owner, Caller: r.Owner}
	}
	return nil
}

func (r *release) how() ending {
	return ending{event: "released", by: r.Owner, reason: r.Reason}
}

// lease releases one lease, holder or ticket.
func (r *release) lease(tx *store.Tx, name string, out *ReleaseResult) error {
	if owner := leaseOwner(name); !descends(owner, r.Owner) {
		return &OwnerError{Key: "lease " + name, Owner: owner, Caller: r.Owner}
	}
	ls, err := getLease(tx, name)
	if err == nil && r.Token != 0 {
		done, err := atToken(tx, ls, r.Token)
		if err != nil || done {
			return err
		}
	}
	if err != nil || !ls.Exists() {
		return err
	}
	if ls.Value.ticket() {
		return dropTicket(tx, name, "")
	}
	if r.process != nil && !ls.Value.endsWith(*r.process) {
		return nil
	}
	if err := tx.Want(lockKeys(ls.Value.Keys)...); err != nil {
		return err
	}
	r.found = true
	if !r.All && !r.leave { // an outer key stays for its users
		if err := inUse(tx, ls, Without(ls.Value.Keys, ls.Value.Auto)); err != nil {
			return err
		}
	}
	var mine []Released
	for _, key := range ls.Value.Keys {
		lk, err := lockOf(tx, ls, key)
		if err != nil {
			return err
		}
		if lk.Exists() && lk.Value.Lease == name {
			mine = append(mine, Released{Key: key, Owner: lk.Value.Owner, Token: lk.Rev})
		}
	}
	left, err := releaseUnused(tx, ls, r.how())
	if err != nil {
		return err
	}
	for _, m := range mine {
		if slices.Contains(left, m.Key) {
			out.Left = append(out.Left, m.Key)
		} else {
			out.Released = append(out.Released, m)
		}
	}
	return nil
}

// all releases everything of an owner, some leases at a time: a commit is limited,
// what a session holds is not.
func (r *release) all(ctx context.Context, st *store.Store) (ReleaseResult, error) {
	var all ReleaseResult
	for done := []string(nil); ; {
		var out ReleaseResult
		var more bool
		var names []string
		prefix := leaseKind + r.Owner + "/"
		_, err := UpdateOrLook(ctx, st, r.DryRun, driver.Query{Ranges: []driver.Range{{Prefix: prefix}}}, func(tx *store.Tx) error {
			out = ReleaseResult{}
			leases, err := store.All[leaseRecord](tx, prefix)
			if err != nil {
				return err
			}
			leases = slices.DeleteFunc(leases, func(ls store.Entry[leaseRecord]) bool { return slices.Contains(done, ls.Key) || !r.ends(ls) })
			if names, err = some(tx, leases); err != nil {
				return err
			}
			more = len(names) < len(leases)
			if names, err = innerFirst(tx, names); err != nil {
				return err
			}
			for _, name := range names {
				if err := r.lease(tx, name, &out); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return ReleaseResult{}, err
		}
		done = append(done, leaseKeys(names)...) // some stay for their users
		all.add(out)
		if !more {
			return all, nil
		}
	}
}

// ends reports whether a lease ends with all of the owner's. What was taken in
// another session stays, and so does an attached holder that works under a lock
// which is released here: that lock is free when it ends.
func (r *release) ends(ls store.Entry[leaseRecord]) bool {
	l := ls.Value
	released := slices.ContainsFunc(l.Uses, func(used string) bool { return descends(leaseOwner(used), r.Owner) })
	working := len(l.Using) > 0 && released && stateOf(ls) == Held
	return (r.Session == "" || l.Session == r.Session) && !working
}

// some returns the names of the first leases that fit into one commit, at
// least one, and makes sure that what they hold is read. A dry run takes all.
func some(tx *store.Tx, leases []store.Entry[leaseRecord]) ([]string, error) {
	var names, keys []string
	room := tx.Room()
	for _, ls := range leases {
		if room -= cost(ls.Value); room < 0 && len(names) > 0 {
			break
		}
		names, keys = append(names, leaseName(ls.Key)), append(keys, Prefixed(queueKind, ls.Value.WaitsFor)...)
	}
	return names, cmp.Or(tx.Want(keys...), wantLeases(tx, names))
}
