package lease

import (
	"cmp"
	"context"
	"slices"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// BreakRequest ends the leases of keys, whoever holds them.
type BreakRequest struct {
	Keys   []string
	By     string // who breaks them
	Reason string // why, for the audit
	ID     string // a repetition with this id has one effect; empty: there is none
	Token  int64  // with one key: only if the lock is at this token, or was last
	Lease  string // full name: only if this lease holds the keys, or held them last; empty: any
	Owner  string // with a pool: the slots of this owner and its children; empty: the keys must be slots
	DryRun bool
}

// breaking is the run of a [BreakRequest].
type breaking struct {
	BreakRequest
	over   bool       // end only leases that are over
	before []Released // ended before the commit, because they were too many for it
}

// Break ends the leases that hold the keys, whoever holds them. Their tokens end:
// the store refuses what their holders write from now on. More keys than a lease
// can have take several commits.
func Break(ctx context.Context, st *store.Store, r BreakRequest) (out ReleaseResult, err error) {
	if r.Keys, err = checkNamed(r.Keys, r.By, r.Reason, r.Token); err != nil {
		return ReleaseResult{}, err
	}
	b := breaking{BreakRequest: r}
	if r.ID == "" {
		return b.some(ctx, st)
	}
	id, err := NewRepeatable(r.By, r.ID, "break", []any{r.Keys, r.Reason, r.Token, r.Lease, r.Owner})
	if err = cmp.Or(err, checkCount(r.Keys)); err != nil { // one receipt describes all of them
		return ReleaseResult{}, err
	}
	_, err = UpdateOrLook(ctx, st, r.DryRun, driver.Query{Keys: append(id.Need(), needMeant(r.Keys)...)}, func(tx *store.Tx) error {
		out = ReleaseResult{}
		if done, err := id.Before(tx, &out); done || err != nil {
			return err
		}
		if err := b.named(tx, r.Keys, &out); err != nil {
			return err
		}
		return id.Keep(tx, out)
	})
	if err != nil {
		return ReleaseResult{}, err
	}
	return out, nil
}

// some breaks keys, as many in each commit as it can guard.
func (r *breaking) some(ctx context.Context, st *store.Store) (ReleaseResult, error) {
	var all ReleaseResult
	err := someKeys(r.Keys, func(keys []string) error {
		var out ReleaseResult
		_, err := UpdateOrLook(ctx, st, r.DryRun, driver.Query{Keys: needMeant(keys)}, func(tx *store.Tx) error {
			out = all
			out.Released, out.Free = slices.Clone(all.Released), slices.Clone(all.Free)
			return r.named(tx, keys, &out)
		})
		all = out
		return err
	})
	return all, err
}

// named breaks the keys that names mean.
func (r *breaking) named(tx *store.Tx, names []string, out *ReleaseResult) error {
	keys, err := meant(tx, names)
	if err != nil {
		return err
	}
	if err := r.namesSlots(tx, keys); err != nil {
		return err
	}
	keys, err = slotsOf(tx, keys, func(lk store.Entry[lockRecord]) bool { return descends(lk.Value.Owner, r.Owner) })
	if err != nil {
		return err
	}
	return r.keys(tx, keys, out)
}

// namesSlots refuses the name of a pool without an owner: it says nothing about who
// is meant. An older tasklock may have locked the name itself.
func (r *breaking) namesSlots(tx *store.Tx, keys []string) error {
	for _, key := range keys {
		if !isPool(key) || r.Owner != "" {
			continue
		}
		lk, err := getLock(tx, key)
		if err != nil || lk.Exists() {
			return err
		}
		p, err := PeekPool(tx, key)
		return cmp.Or(err, error(&WhichSlotError{Pool: p.Pool, Holders: p.Holders}))
	}
	return nil
}

func (r *breaking) keys(tx *store.Tx, keys []string, out *ReleaseResult) error {
	if err := WantEnd(tx, keys...); err != nil {
		return err
	}
	if err := r.fits(tx, keys); err != nil {
		return err
	}
	out.Released = append(out.Released, r.before...)
	for _, key := range keys {
		if slices.ContainsFunc(out.Released, func(r Released) bool { return r.Key == key }) {
			continue // it ended with the lease of an earlier key
		}
		lk, err := getLock(tx, key)
		if err != nil {
			return err
		}
		if !lk.Exists() {
			if err := fencedPast(tx, key, r.Token, 0, r.Lease); err != nil {
				return err
			}
			out.Free = append(out.Free, key)
			continue
		}
		if err := fenced(lk, key, r.Token, 0, r.Lease); err != nil {
			return err
		}
		ls, err := getLease(tx, lk.Value.Lease)
		if err != nil {
			return err
		}
		v := victim{lease: lk.Value.Lease, key: key}
		if err := brokenBy(tx, v, ls, &out.Released); err != nil {
			return err
		}
		if err := endVictim(tx, v, r.how()); err != nil {
			return err
		}
	}
	return nil
}

func (r *breaking) how() ending {
	return ending{event: "broken", by: r.By, reason: r.Reason}
}

// fits makes sure that what will be broken fits into the commit.
func (r *breaking) fits(tx *store.Tx, keys []string) error {
	var victims []victim
	need := 0
	for _, key := range keys {
		lk, err := peekLock(tx, key)
		if err != nil {
			return err
		}
		if !lk.Exists() || r.Token != 0 && lk.Rev != r.Token || r.Lease != "" && lk.Value.Lease != r.Lease {
			continue
		}
		ls, err := peekLease(tx, lk.Value.Lease)
		if err != nil {
			return err
		}
		need += cost(ls.Value)
		victims = append(victims, victim{lease: lk.Value.Lease, key: key})
	}
	if tx.Room() >= need || len(victims) == 0 {
		return nil
	}
	for _, v := range victims {
		ls, err := peekLease(tx, v.lease)
		if err != nil {
			return err
		}
		if err := brokenBy(tx, v, ls, &r.before); err != nil {
			return err
		}
	}
	still := anyway
	if r.over {
		still = isOver
	}
	return &crowded{victims: victims, how: r.how(), still: still}
}

// brokenBy adds the locks that end with a lease, each once.
func brokenBy(tx *store.Tx, v victim, ls store.Entry[leaseRecord], out *[]Released) error {
	keys := ls.Value.Keys
	if !ls.Exists() {
		keys = []string{v.key}
	}
	if err := tx.Want(lockKeys(keys)...); err != nil {
		return err
	}
	for _, key := range keys {
		lk, err := peekLock(tx, key)
		if err != nil {
			return err
		}
		r := Released{Key: key, Owner: lk.Value.Owner, Token: lk.Rev}
		if lk.Exists() && lk.Value.Lease == v.lease && !slices.Contains(*out, r) {
			*out = append(*out, r)
		}
	}
	return nil
}
