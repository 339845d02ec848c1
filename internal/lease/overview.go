package lease

import (
	"context"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// OverviewResult is a first look at the locks, of limited size.
type OverviewResult struct {
	Mine   []Info // all that the owner and its children hold
	Others []Info // some of what others hold, paths first
	More   bool   // there are further locks
}

// overviewSize is how many locks of a kind an overview reads.
const overviewSize = 20

// Overview returns what an owner holds and some of what others hold. It reads
// little: it is for a hook that must be quick, where [List] reads everything.
func Overview(ctx context.Context, st *store.Store, owner string) (OverviewResult, error) {
	var out OverviewResult
	need := driver.Query{Ranges: []driver.Range{
		{Prefix: leaseKind + owner + "/"}, {Prefix: pathKind, Limit: overviewSize}, {Prefix: lockKind, Limit: overviewSize},
	}}
	err := st.View(ctx, need, func(tx *store.Tx) error {
		out = OverviewResult{}
		mine, err := held(tx, owner)
		if err != nil {
			return err
		}
		var keys []string
		for _, kind := range []string{pathKind, lockKind} {
			recs, err := tx.Scan(kind, overviewSize)
			if err != nil {
				return err
			}
			out.More = out.More || len(recs) == overviewSize
			for _, rec := range recs {
				lk, err := store.Decode[lockRecord](tx, rec)
				if err != nil {
					return err
				}
				if !descends(lk.Value.Owner, owner) {
					keys = append(keys, lk.Value.Key)
				}
			}
		}
		if err := WantLook(tx, append(slices.Clip(keys), mine...)...); err != nil {
			return err
		}
		if out.Mine, err = inForce(tx, mine); err != nil {
			return err
		}
		out.Others, err = inForce(tx, keys)
		return err
	})
	return out, err
}

// held returns the keys of all leases of an owner and its children.
func held(tx *store.Tx, owner string) (keys []string, err error) {
	leases, err := store.All[leaseRecord](tx, leaseKind+owner+"/")
	for _, l := range leases {
		keys = append(keys, l.Value.Keys...)
	}
	slices.SortFunc(keys, strings.Compare)
	return keys, err
}

// inForce returns the locks on the keys that keep others out.
func inForce(tx *store.Tx, keys []string) (out []Info, err error) {
	if err := WantLook(tx, keys...); err != nil {
		return nil, err
	}
	for _, key := range keys {
		info, err := Look(tx, key)
		if err != nil {
			return nil, err
		}
		if info.InForce() {
			out = append(out, *info)
		}
	}
	return out, nil
}
