package lease

import "github.com/tasklock/tasklock/store"

// What is written for a holder depends on its grant.

// Fence makes the transaction depend on the lock on key being at token. It is for
// everything that is written for the holder.
func Fence(tx *store.Tx, key string, token int64) error { return FenceLease(tx, key, token, "") }

// FenceLease is Fence that also compares the lease, if one is named: another
// store may have the key at the same token.
func FenceLease(tx *store.Tx, key string, token int64, lease string) error {
	lk, err := getLock(tx, key)
	if err != nil {
		return err
	}
	return fenced(lk, key, token, 0, lease)
}

// fenced refuses a lock that is gone, or another than is meant: at this token,
// held by this lease, or granted no later than latest, for a holder of several
// keys that knows only the largest of their tokens.
func fenced(lk store.Entry[lockRecord], key string, token, latest int64, lease string) error {
	if lk.Exists() && (token == 0 || lk.Rev == token) && (latest == 0 || lk.Rev <= latest) && (lease == "" || lk.Value.Lease == lease) {
		return nil
	}
	return &LostError{Key: key, Token: max(token, latest), Owner: lk.Value.Owner, Now: lk.Rev}
}

// fencedPast is fenced for a key that nobody holds: the grant must be the last one
// of the key. It refuses a grant that history does not know.
func fencedPast(tx *store.Tx, key string, token, latest int64, lease string) error {
	if token == 0 && latest == 0 && lease == "" {
		return nil
	}
	last, err := past(tx, func(e Event) bool { return e.About(key) })
	if err != nil {
		return err
	}
	was := store.Entry[lockRecord]{Rev: last.Token, Value: lockRecord{Lease: last.Lease}}
	if fenced(was, key, token, latest, lease) == nil {
		return nil
	}
	why := "it was granted again since, and is free now"
	if last.Token <= max(token, latest) {
		why = "no such grant is known, and nobody holds it"
	}
	return &LostError{Key: key, Token: max(token, latest), Why: why}
}

// atToken refuses a lease whose largest token is another than the caller knows: its
// request id was used again. Of a lease that has ended it reports whether its own
// release was how: then a release is done, as often as it is asked for.
func atToken(tx *store.Tx, ls store.Entry[leaseRecord], token int64) (released bool, err error) {
	name := leaseName(ls.Key)
	if !ls.Exists() {
		done, err := store.Get[receipt](tx, requestKind+name)
		switch {
		case err != nil:
			return false, err
		case done.Value.Ended == "released":
			return true, nil
		case done.Exists():
			return false, &LostError{Key: "lease " + name, Token: token, Why: "it is " + done.Value.Ended}
		}
		return false, noLease(tx, name, leaseOwner(name))
	}
	locks, err := getLocks(tx, ls.Value.all())
	if err != nil {
		return false, err
	}
	largest := int64(0)
	for _, lk := range locks {
		largest = max(largest, lk.Rev)
	}
	if largest != token {
		return false, &LostError{Key: "lease " + name, Token: token, Owner: ls.Value.Owner, Now: largest}
	}
	return false, nil
}
