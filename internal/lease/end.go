package lease

import (
	"slices"

	"github.com/tasklock/tasklock/store"
)

// ending says how and why a lease ends.
type ending struct {
	event  string // released, taken over, broken, expired
	by     string
	why    string
	reason string
	waited float64 // seconds in the queue of whoever takes over
}

// endLease ends a whole lease: every lock that still belongs to it, and the
// record itself. No other function deletes locks.
func endLease(tx *store.Tx, name string, how ending) error {
	ls, err := getLease(tx, name)
	if err != nil {
		return err
	}
	return endKeys(tx, ls, ls.Value.all(), how)
}

// endKeys ends some keys of a lease, and with the last of them the lease.
func endKeys(tx *store.Tx, ls store.Entry[leaseRecord], keys []string, how ending) error {
	name := leaseName(ls.Key)
	idle, err := idle(tx, ls, keys)
	if err != nil {
		return err
	}
	keys = append(slices.Clip(keys), idle...)
	if err := tx.Want(lockKeys(keys)...); err != nil {
		return err
	}
	var ended []string
	var token int64
	for _, key := range keys {
		lk, err := lockOf(tx, ls, key)
		if err != nil {
			return err
		}
		if lk.Exists() && lk.Value.Lease == name {
			tx.Delete(lk.Key)
			if err := ls.Value.putBack(tx, key); err != nil {
				return err
			}
			ended, token = append(ended, key), max(token, lk.Rev)
		}
	}
	l, left, err := ls.Value.without(tx, keys)
	switch {
	case err != nil:
		return err
	case l.holds() && len(l.all()) == len(ls.Value.all()):
		return nil // nothing of it was meant
	case l.holds():
		err = endPart(tx, name, l, Without(ls.Value.Keys, l.Keys), how)
	case ls.Exists() || len(ended) > 0: // else it has ended before
		err = endRecord(tx, ls, ended, how)
	}
	if err != nil {
		return err
	}
	if err := leave(tx, left); err != nil || len(ended) == 0 {
		return err
	}
	return Log(tx, Event{Event: how.event, Keys: ended, Owner: leaseOwner(name), By: how.by, Lease: name, Token: token, Waited: how.waited, Why: how.why, Reason: how.reason})
}

// endPart rewrites a lease that goes on, and ends the users of the keys that it
// has lost. Keys that it only used stay for others.
func endPart(tx *store.Tx, name string, l leaseRecord, keys []string, how ending) error {
	if err := refresh(tx, name, l); err != nil || len(l.UsedBy) == 0 || len(keys) == 0 {
		return err
	}
	ls, err := getLease(tx, name)
	if err != nil {
		return err
	}
	inside, err := users(tx, ls)
	if err != nil {
		return err
	}
	return cascade(tx, ls, inside, keys, how)
}

// endRecord ends a lease without keys, and the leases that rely on it.
func endRecord(tx *store.Tx, ls store.Entry[leaseRecord], ended []string, how ending) error {
	inside, err := users(tx, ls)
	if err != nil {
		return err
	}
	if ls.Exists() {
		tx.Delete(ls.Key)
	}
	if ls.Value.Requested {
		if err := putReceipt(tx, leaseName(ls.Key), receipt{Keys: ended, Ended: how.event, Digest: ls.Value.Digest}); err != nil {
			return err
		}
	}
	return cascade(tx, ls, inside, nil, how)
}

func lockKeys(keys []string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = recordOf(k)
	}
	return out
}

// Without returns the elements of all that are not in some.
func Without(all, some []string) []string {
	var out []string
	for _, k := range all {
		if !slices.Contains(some, k) {
			out = append(out, k)
		}
	}
	return out
}
