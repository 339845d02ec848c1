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
