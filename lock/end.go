package lock

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
}

// receipt remembers what became of a request that was named by its caller.
type receipt struct {
	Keys  []string       `json:"keys"`
	Ended string         `json:"ended,omitempty"` // how the lease of an acquisition ended
	Broke *ReleaseResult `json:"broke,omitempty"` // what a break did
}

// endLease ends a whole lease: every lock that still belongs to it, and the
// record itself. It is the only place where locks are deleted.
func endLease(tx *store.Tx, name string, how ending) error {
	ls, err := getLease(tx, name)
	if err != nil {
		return err
	}
	return endKeys(tx, ls, ls.Value.Keys, how)
}

// endKeys ends some keys of a lease, and with the last of them the lease.
func endKeys(tx *store.Tx, ls store.Entry[leaseRecord], keys []string, how ending) error {
	name := ls.Key[len(leaseKind):]
	keys = append(slices.Clip(keys), ls.Value.idle(keys)...)
	if err := tx.Want(lockKeys(keys)...); err != nil {
		return err
	}
	var ended []string
	var token int64
	for _, key := range keys {
		lk, err := getLock(tx, key)
		if err != nil {
			return err
		}
		if lk.Exists() && lk.Value.Lease == name {
			tx.Delete(lk.Key)
			ended, token = append(ended, key), max(token, lk.Rev)
		}
	}
	l := ls.Value
	if l.Keys = without(l.Keys, keys); len(l.Keys) == len(ls.Value.Keys) && ls.Exists() {
		return nil // nothing of it was meant
	}
	if len(l.Keys) > 0 {
		held, err := heldFor(tx, l)
		if err != nil {
			return err
		}
		if err := putLease(tx, name, l, held); err != nil {
			return err
		}
	} else {
		if ls.Exists() {
			tx.Delete(ls.Key)
		}
		if err := unlink(tx, name, l); err != nil {
			return err
		}
		if err := cascade(tx, l, how); err != nil {
			return err
		}
		if l.Requested {
			if err := tx.PutTTL(requestKind+name, receipt{Keys: ended, Ended: how.event}, keepTokens); err != nil {
				return err
			}
		}
	}
	if len(ended) == 0 {
		return nil
	}
	return Log(tx, Event{Event: how.event, Keys: ended, Owner: leaseOwner(name), By: how.by, Lease: name, Token: token, Why: how.why, Reason: how.reason})
}

func lockKeys(keys []string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = lockKind + k
	}
	return out
}

func without(all, some []string) []string {
	var out []string
	for _, k := range all {
		if !slices.Contains(some, k) {
			out = append(out, k)
		}
	}
	return out
}
